//! What lean metrics leave out: label sets that differ only in such labels are summed. Pure.
//!
//! Threads count in full detail. Sums are made when somebody scrapes, so the setting costs a request nothing, and
//! `/metrics?detail=full` still has everything.

use std::str::FromStr;

/// How much `/metrics` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// At most 300 series of a pod with 20 peers.
    #[default]
    Lean,
    /// Every label set.
    Full,
}

impl FromStr for Detail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lean" => Ok(Self::Lean),
            "full" => Ok(Self::Full),
            _ => Err(format!("{text:?} is not one of lean, full")),
        }
    }
}

/// Labels by which lean metrics tell series apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// Peer, Service and route: neither endpoint, nor address, nor authorization.
    Requests,
    /// A histogram has 19 series, so there is one for each direction.
    Latency,
    /// Direction, side and protection.
    Connections,
    /// Server, route and rule, without the client.
    Authorization,
    /// The sum of all balancers.
    Balancers,
}

impl Fold {
    /// Of a family of plain counters or gauges; `None` where lean metrics show everything.
    pub(super) fn of_family(name: &str) -> Option<Self> {
        match name {
            "inbound_http_authz_allow_total"
            | "inbound_http_authz_deny_total"
            | "inbound_tcp_authz_allow_total"
            | "inbound_tcp_authz_deny_total" => Some(Self::Authorization),
            "outbound_http_balancer_endpoints" => Some(Self::Balancers),
            _ => None,
        }
    }

    fn keeps(self, label: &str) -> bool {
        let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| label.starts_with(prefix));
        let is_protection = ["tls", "no_tls_reason"].contains(&label);
        match self {
            Self::Requests => {
                let own = ["direction", "client_id", "server_id", "overflow"];
                let backend = ["dst_namespace", "dst_service", "dst_deployment"];
                is_protection
                    || own.contains(&label)
                    || backend.contains(&label)
                    || is_of(&["srv_", "route_"])
            }
            Self::Latency => label == "direction",
            Self::Connections => is_protection || ["direction", "peer"].contains(&label),
            Self::Authorization => is_protection || is_of(&["srv_", "route_", "authz_"]),
            Self::Balancers => label == "endpoint_state",
        }
    }

    /// The labels that are kept, of `name="value",…`.
    pub(super) fn labels(self, text: &str) -> String {
        let mut kept = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((label, end)) = first(rest) {
            if self.keeps(label) {
                if !kept.is_empty() {
                    kept.push(',');
                }
                kept.push_str(&rest[..end]);
            }
            rest = rest[end..].strip_prefix(',').unwrap_or_default();
        }
        kept
    }
}

/// The first label's name, and where its value ends.
fn first(text: &str) -> Option<(&str, usize)> {
    let (name, value) = text.split_once("=\"")?;
    let mut is_escaped = false;
    let end = value.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some((name, name.len() + 2 + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fold: Fold, text: &str, expected: &str) {
        assert_eq!(fold.labels(text), expected, "{text}");
    }

    #[test]
    fn labels_that_are_kept() {
        let outbound = r#"direction="outbound",target_ip="10.0.0.1",tls="true",server_id="s",srv_name="a",route_name="r",dst_pod="p",dst_service="a""#;
        check(
            Fold::Requests,
            outbound,
            r#"direction="outbound",tls="true",server_id="s",srv_name="a",route_name="r",dst_service="a""#,
        );
        check(Fold::Latency, outbound, r#"direction="outbound""#);
        check(Fold::Connections, outbound, r#"direction="outbound",tls="true""#);
        check(
            Fold::Authorization,
            r#"target_port="1",srv_name="a",authz_name="b""#,
            r#"srv_name="a",authz_name="b""#,
        );
        check(
            Fold::Balancers,
            r#"endpoint_state="ready",parent_name="a""#,
            r#"endpoint_state="ready""#,
        );
        check(Fold::Latency, "", "");
    }

    #[test]
    fn values_of_others_change_nothing() {
        let hostile =
            r#"target_ip="a\",tls=\"true\\",client_id="\\\",direction=\"x",direction="inbound""#;
        check(Fold::Latency, hostile, r#"direction="inbound""#);
        check(Fold::Requests, hostile, r#"client_id="\\\",direction=\"x",direction="inbound""#);
    }

    #[test]
    fn words() {
        assert_eq!("lean".parse(), Ok(Detail::Lean));
        assert_eq!("full".parse(), Ok(Detail::Full));
        let wrong = Detail::from_str("Full").unwrap_err();
        assert_eq!(wrong, "\"Full\" is not one of lean, full");
    }
}
