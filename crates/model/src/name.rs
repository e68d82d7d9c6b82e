//! Names: identities, services, workloads. Parsed once, cheap to compare and to clone.

use crate::limit::{DNS_NAME_BYTES_MAX, SPIFFE_ID_BYTES_MAX};
use std::fmt;
use std::sync::Arc;

/// Why a text is not the name it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not `spiffe://<trust-domain>/<path>` as the SPIFFE-ID specification has it.
    #[error("{0:?} is not a SPIFFE ID: {1}")]
    Spiffe(String, &'static str),
    /// Not a DNS name of lower-case labels.
    #[error("{0:?} is not a DNS name: {1}")]
    Dns(String, &'static str),
    /// Not `/ns/<namespace>/sa/<service account>`.
    #[error("{0:?} does not name a Kubernetes service account (/ns/<namespace>/sa/<name>)")]
    ServiceAccount(String),
    /// Not `{"ns":…,"pod":…}` or `<namespace>:<pod>`.
    #[error("{0:?} does not name a workload (<namespace>:<pod>)")]
    Workload(String),
}

/// A SPIFFE ID, e.g. `spiffe://cluster.local/ns/default/sa/web`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpiffeId(Arc<str>);

impl SpiffeId {
    /// The identity of a Kubernetes service account.
    ///
    /// # Errors
    /// A part is not a valid path segment or trust domain.
    pub fn service_account(
        trust_domain: &str,
        namespace: &str,
        account: &str,
    ) -> Result<Self, NameError> {
        Self::parse(&format!("spiffe://{trust_domain}/ns/{namespace}/sa/{account}"))
    }

    /// Parses and checks a SPIFFE ID (SPIFFE-ID specification §2).
    ///
    /// # Errors
    /// Names the rule that is broken.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wrong = |rule| Err(NameError::Spiffe(text.to_owned(), rule));
        if text.len() > SPIFFE_ID_BYTES_MAX {
            return wrong("longer than 2048 bytes");
        }
        let Some(rest) = text.strip_prefix("spiffe://") else {
            return wrong("it does not begin with spiffe://");
        };
        let (domain, path) =
            rest.split_once('/').map_or((rest, None), |(domain, path)| (domain, Some(path)));
        if domain.is_empty() || domain.len() > 255 {
            return wrong("the trust domain has 1 to 255 characters");
        }
        if !domain.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_')) {
            return wrong("the trust domain has only a-z, 0-9, '.', '-' and '_'");
        }
        for segment in path.iter().flat_map(|path| path.split('/')) {
            if segment.is_empty() || segment == "." || segment == ".." {
                return wrong("a path segment is empty, '.' or '..'");
            }
            if !segment
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
            {
                return wrong("a path segment has only letters, digits, '.', '-' and '_'");
            }
        }
        Ok(Self(text.into()))
    }

    /// The whole URI.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The trust domain, e.g. `cluster.local`.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        let rest = &self.0["spiffe://".len()..];
        rest.split_once('/').map_or(rest, |(domain, _)| domain)
    }

    /// Namespace and service account, where the path is `/ns/<namespace>/sa/<name>`.
    ///
    /// # Errors
    /// The path has another form.
    pub fn as_service_account(&self) -> Result<(&str, &str), NameError> {
        let parts: Vec<&str> = self.0["spiffe://".len()..].split('/').collect();
        match parts.as_slice() {
            [_, "ns", namespace, "sa", account] => Ok((namespace, account)),
            _ => Err(NameError::ServiceAccount(self.0.to_string())),
        }
    }

    /// The DNS-like name of the same identity, as linkerd writes it:
    /// `<account>.<namespace>.serviceaccount.identity.<control namespace>.<trust domain>`.
    ///
    /// # Errors
    /// The path has another form, or the result is not a DNS name.
    pub fn to_dns_like(&self, control_namespace: &str) -> Result<DnsName, NameError> {
        let (namespace, account) = self.as_service_account()?;
        let domain = self.trust_domain();
        DnsName::parse(&format!(
            "{account}.{namespace}.serviceaccount.identity.{control_namespace}.{domain}"
        ))
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A DNS name in canonical form: lower case, no trailing dot.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsName(Arc<str>);

impl DnsName {
    /// Parses a name; upper case is lowered and one trailing dot is dropped.
    ///
    /// # Errors
    /// Names the rule that is broken.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wrong = |rule| Err(NameError::Dns(text.to_owned(), rule));
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > DNS_NAME_BYTES_MAX {
            return wrong("a name has 1 to 253 characters");
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > 63 {
                return wrong("a label has 1 to 63 characters");
            }
            if !label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
                return wrong("a label has only letters, digits, '-' and '_'");
            }
        }
        Ok(Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name by which a peer is verified and shown: a SPIFFE ID (URI SAN), or a DNS-like name (DNS SAN) of a linkerd proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerName {
    /// Verified against a URI SAN.
    Spiffe(SpiffeId),
    /// Verified against a DNS SAN.
    Dns(DnsName),
}

impl PeerName {
    /// Parses `spiffe://…` as a SPIFFE ID and everything else as a DNS name.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.starts_with("spiffe://") {
            SpiffeId::parse(text).map(Self::Spiffe)
        } else {
            DnsName::parse(text).map(Self::Dns)
        }
    }

    /// The name as text, as in labels and policy.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Spiffe(id) => id.as_str(),
            Self::Dns(name) => name.as_str(),
        }
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The end of a DNS-like name in labels; empty matches every identity, SPIFFE IDs included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suffix(pub Vec<Arc<str>>);

impl Suffix {
    pub(crate) fn matches(&self, name: &PeerName) -> bool {
        if self.0.is_empty() {
            return true;
        }
        match name {
            PeerName::Dns(name) => self.ends(name.as_str().rsplit('.').map(Some)),
            PeerName::Spiffe(id) => id.as_service_account().is_ok_and(|(namespace, account)| {
                // The DNS-like name of the account. Its label for the control plane's namespace is not in a SPIFFE ID.
                let fixed = [None, Some("identity"), Some("serviceaccount"), Some(namespace)];
                let domain = id.trust_domain().rsplit('.').map(Some);
                self.ends(domain.chain(fixed).chain(account.rsplit('.').map(Some)))
            }),
        }
    }

    /// Whether a name with these labels, last label first, is longer than the suffix and ends with it. `None` is any label.
    fn ends<'a>(&self, mut labels: impl Iterator<Item = Option<&'a str>>) -> bool {
        let is_same =
            |part: &Arc<str>, label: Option<&str>| label.is_none_or(|label| label == &**part);
        let all =
            self.0.iter().rev().all(|part| labels.next().is_some_and(|label| is_same(part, label)));
        all && labels.next().is_some()
    }
}

/// A Kubernetes object that something is about, in metrics labels and in answers of the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Made up by the control plane where no object says otherwise, e.g. `all-unauthenticated`.
    Default(Arc<str>),
    /// A real object.
    Object {
        /// API group, `""` or `core` for the core group.
        group: Arc<str>,
        /// Kind, e.g. `Service`.
        kind: Arc<str>,
        /// Namespace.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
        /// Section of the object, or empty.
        section: Arc<str>,
        /// Port that is meant, or 0.
        port: u16,
    },
}

impl Resource {
    /// A made-up one.
    #[must_use]
    pub fn default_named(name: &str) -> Self {
        Self::Default(name.into())
    }

    /// A real object without section and port.
    #[must_use]
    pub fn object(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self::Object {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            section: "".into(),
            port: 0,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Default(name) | Self::Object { name, .. } => name,
        }
    }

    /// Its namespace, empty for a made-up one.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Default(_) => "",
            Self::Object { namespace, .. } => namespace,
        }
    }

    /// Its kind in lower case, `default` for a made-up one: as in metric labels.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Default(_) => "default",
            Self::Object { kind, .. } => kind,
        }
    }
}

/// A pod, as a proxy tells the control plane who it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadId {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the pod.
    pub pod: Arc<str>,
}

impl WorkloadId {
    /// Parses linkerd's two forms: `{"ns":"default","pod":"web-1"}` and `default:web-1`.
    ///
    /// # Errors
    /// The text has neither form.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Workload(text.to_owned());
        let (namespace, pod) = if text.trim_start().starts_with('{') {
            (json_text(text, "ns").ok_or_else(wrong)?, json_text(text, "pod").ok_or_else(wrong)?)
        } else {
            text.split_once(':').ok_or_else(wrong)?
        };
        // Names of Kubernetes have no quotes, and with one the text of this would name something else.
        if [namespace, pod].iter().any(|name| name.is_empty() || name.contains('"')) {
            return Err(wrong());
        }
        Ok(Self { namespace: namespace.into(), pod: pod.into() })
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"ns":"{}","pod":"{}"}}"#, self.namespace, self.pod)
    }
}

/// The text behind `"key":` in a flat JSON object whose values are Kubernetes names, which never need escapes.
fn json_text<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let after_key = json.split_once(&format!("\"{key}\""))?.1.trim_start();
    let value = after_key.strip_prefix(':')?.trim_start().strip_prefix('"')?;
    value.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spiffe_ids() {
        let check =
            |text: &str, valid: bool| assert_eq!(SpiffeId::parse(text).is_ok(), valid, "{text}");
        check("spiffe://cluster.local/ns/default/sa/web", true);
        check("spiffe://td", true);
        check("spiffe://td/", false);
        check("spiffe:///ns/a", false);
        check("spiffe://TD/ns/a", false);
        check("spiffe://td:80/ns/a", false);
        check("spiffe://td/a//b", false);
        check("spiffe://td/a/../b", false);
        check("spiffe://td/a%20b", false);
        check("spiffe://td/a?b", false);
        check("https://td/a", false);
    }

    #[test]
    fn a_service_account_has_both_names() {
        let id = SpiffeId::service_account("cluster.local", "default", "web").unwrap();
        assert_eq!(id.as_service_account().unwrap(), ("default", "web"));
        assert_eq!(id.trust_domain(), "cluster.local");
        assert_eq!(
            id.to_dns_like("leno").unwrap().as_str(),
            "web.default.serviceaccount.identity.leno.cluster.local"
        );
    }

    #[test]
    fn workloads() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let workload = WorkloadId::parse(text).ok();
            let parts = workload.as_ref().map(|w| (w.namespace.as_ref(), w.pod.as_ref()));
            assert_eq!(parts, expected, "{text}");
        };
        check(r#"{"ns":"default","pod":"web-1"}"#, Some(("default", "web-1")));
        check(r#" { "pod" : "web-1", "ns": "default" }"#, Some(("default", "web-1")));
        check("default:web-1", Some(("default", "web-1")));
        check("web-1", None);
        check(r#"{"ns":"default"}"#, None);
        check(":web", None);
        check(r#"z"ns":"shop","pod":"web-1""#, None);
    }
}
