//! The address families of a Service, by the rules of Kubernetes; pure.
//!
//! A Service that says nothing has the first family of the cluster alone, which is IPv4 here: the same manifest then behaves on one
//! machine as in a cluster. It also means that an application which listens on 0.0.0.0 alone is reached by a client that tries IPv6
//! first. Applications that listen on `::` take IPv4 as well.

use crate::address::Pair;
use k8s_openapi::api::core::v1::Service;
use std::net::IpAddr;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    fn named(text: &str) -> Result<Self, String> {
        match text {
            "IPv4" => Ok(Self::V4),
            "IPv6" => Ok(Self::V6),
            other => Err(format!("ipFamilies: {other:?} is neither IPv4 nor IPv6")),
        }
    }

    fn other(self) -> Self {
        if self == Self::V4 { Self::V6 } else { Self::V4 }
    }

    /// As Kubernetes writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self == Self::V4 { "IPv4" } else { "IPv6" }
    }

    /// The address of this family.
    #[must_use]
    pub fn of(self, pair: Pair) -> IpAddr {
        if self == Self::V4 { pair.v4.into() } else { pair.v6.into() }
    }
}

/// One or both families, the primary one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    primary: Family,
    is_dual: bool,
}

impl Default for Families {
    fn default() -> Self {
        Self { primary: Family::V4, is_dual: false }
    }
}

impl Families {
    /// What the Service asks for, on a machine with or without IPv6.
    ///
    /// # Errors
    /// `ipFamilies` and `ipFamilyPolicy` contradict each other, or this machine lacks IPv6.
    pub fn of(service: &Service, has_ipv6: bool) -> Result<Self, String> {
        let spec = service.spec.as_ref();
        let named = spec.and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
        let named: Vec<Family> =
            named.iter().map(|name| Family::named(name)).collect::<Result<_, _>>()?;
        // Kubernetes infers the policy of a Service that names two families.
        let usual = if named.len() == 2 { "RequireDualStack" } else { "SingleStack" };
        let policy = spec.and_then(|spec| spec.ip_family_policy.as_deref()).unwrap_or(usual);
        let wants_both = match policy {
            "SingleStack" => false,
            "PreferDualStack" | "RequireDualStack" => true,
            other => {
                return Err(format!(
                    "ipFamilyPolicy: {other:?} is not SingleStack, PreferDualStack or RequireDualStack"
                ));
            }
        };
        let primary = match *named.as_slice() {
            [] => Family::V4,
            [only] => only,
            [first, second] if first == second => {
                return Err(format!("ipFamilies: {} is there twice", first.name()));
            }
            [first, _] if wants_both => first,
            _ => {
                return Err(
                    "ipFamilies: more than one family needs ipFamilyPolicy PreferDualStack or RequireDualStack"
                        .to_owned(),
                );
            }
        };
        if has_ipv6 || (primary == Family::V4 && policy != "RequireDualStack") {
            return Ok(Self { primary, is_dual: wants_both && has_ipv6 });
        }
        Err(format!("ipFamilyPolicy {policy} needs IPv6, which this machine has switched off"))
    }

    /// Each family, the primary one first.
    pub fn iter(self) -> impl Iterator<Item = Family> + Clone {
        let second = self.is_dual.then(|| self.primary.other());
        std::iter::once(self.primary).chain(second)
    }

    /// The policy that says the same.
    #[must_use]
    pub fn policy(self) -> &'static str {
        if self.is_dual { "RequireDualStack" } else { "SingleStack" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `policy families` to families, on a machine with IPv6 and on one without.
    #[track_caller]
    fn check(asked: &str, with: &str, without: &str) {
        let mut words = asked.split_whitespace();
        let policy = words.next().filter(|policy| *policy != "-");
        let families: Vec<&str> = words.collect();
        let mut spec = json!({});
        if let Some(policy) = policy {
            spec["ipFamilyPolicy"] = policy.into();
        }
        if !families.is_empty() {
            spec["ipFamilies"] = families.into();
        }
        let service: Service = serde_json::from_value(json!({"spec": spec})).unwrap();
        for (has_ipv6, expected) in [(true, with), (false, without)] {
            let found = match Families::of(&service, has_ipv6) {
                Ok(found) => found.iter().map(Family::name).collect::<Vec<_>>().join(" "),
                Err(wrong) => wrong,
            };
            assert!(found.contains(expected), "{asked} (IPv6: {has_ipv6}): {found}");
            assert_eq!(found.starts_with("IPv"), expected.starts_with("IPv"), "{asked}: {found}");
        }
    }

    #[test]
    fn families_are_those_of_kubernetes() {
        let lacks = "needs IPv6";
        check("-", "IPv4", "IPv4");
        check("SingleStack", "IPv4", "IPv4");
        check("- IPv6", "IPv6", lacks);
        check("SingleStack IPv6", "IPv6", lacks);
        check("PreferDualStack", "IPv4 IPv6", "IPv4");
        check("PreferDualStack IPv6", "IPv6 IPv4", lacks);
        check("RequireDualStack", "IPv4 IPv6", lacks);
        check("RequireDualStack IPv6 IPv4", "IPv6 IPv4", lacks);
        check("- IPv6 IPv4", "IPv6 IPv4", lacks);
        for (asked, wrong) in [
            ("SingleStack IPv4 IPv6", "more than one family needs"),
            ("RequireDualStack IPv4 IPv4", "ipFamilies: IPv4 is there twice"),
            ("- IPv5", "\"IPv5\" is neither IPv4 nor IPv6"),
            ("DualStack", "\"DualStack\" is not SingleStack, PreferDualStack or RequireDualStack"),
        ] {
            check(asked, wrong, wrong);
        }
    }
}
