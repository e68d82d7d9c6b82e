//! Annotations, port lists and declared protocols.

use crate::source::{Problem, Sourced};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leno_inject::annotation::value::{self, PortPart};
use leno_inject::annotation::{MESHED, prefixes};
use leno_model::policy::DefaultPolicy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long linkerd's proxies look for a protocol; ours have a short limit of their own.
pub const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Annotations of an object: the text of a name.
pub(super) type Annotations<'look, 'text> = &'look dyn Fn(&str) -> Option<&'text str>;

/// The annotation for ports without a Server.
const DEFAULT: &str = "default-inbound-policy";
/// The annotation of a Namespace for the policy that its pods cannot loosen.
pub(super) const MINIMUM: &str = "minimum-inbound-policy";

/// The declared protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// HTTP/1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    Grpc,
    /// Bytes.
    Opaque,
    /// The application's own TLS.
    Tls,
}

impl Declared {
    /// Reads `appProtocol`; a protocol that means nothing to us is found by detection.
    #[must_use]
    pub fn of_app_protocol(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "http" | "kubernetes.io/ws" => Some(Self::Http1),
            "kubernetes.io/h2c" | "h2c" | "http2" => Some(Self::Http2),
            "grpc" | "kubernetes.io/grpc" => Some(Self::Grpc),
            "tcp" | "linkerd.io/opaque" | "linkerd.io/tcp" | "leno.dev/opaque" => {
                Some(Self::Opaque)
            }
            "tls" | "https" | "kubernetes.io/wss" => Some(Self::Tls),
            _ => None,
        }
    }
}

/// A list of ports and ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    ranges: Vec<(u16, u16)>,
    /// Ports by name that have no number yet.
    names: Vec<Box<str>>,
}

/// The number of a port by the name that its pod or Service gives it.
pub(super) type NumberOf<'look> = &'look dyn Fn(&str) -> Option<u16>;

impl Ports {
    /// Reads `5432,1000-2000,mysql`, as the injector does; what is not understood is named, the rest is kept.
    #[must_use]
    pub fn parse(text: &str) -> (Self, Vec<String>) {
        let (mut ports, mut wrong) = (Self::default(), Vec::new());
        for part in value::port_parts(text) {
            match part {
                Ok(PortPart::Numbers(first, last)) => ports.ranges.push((first, last)),
                Ok(PortPart::Named(name)) => ports.names.push(name.into()),
                Err(why) => wrong.push(format!("{why}; it is ignored")),
            }
        }
        (ports, wrong)
    }

    /// Names get their numbers. Those that have none are answered, and left out.
    fn number(&mut self, number_of: NumberOf<'_>) -> Vec<Box<str>> {
        let mut unknown = Vec::new();
        for name in std::mem::take(&mut self.names) {
            match number_of(&name) {
                Some(number) => self.ranges.push((number, number)),
                None => unknown.push(name),
            }
        }
        unknown
    }

    /// Whether the port is in the list.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

/// What annotations of one object say; `None` where they say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) opaque: Option<Ports>,
    pub(super) skip_inbound: Option<Ports>,
    pub(super) require_identity: Option<Ports>,
    pub(super) policy: Option<DefaultPolicy>,
    pub(super) meshed: bool,
    /// Of a Namespace: what its pods cannot loosen.
    pub(super) minimum: DefaultPolicy,
    /// The proxy takes HTTP/1 carried in HTTP/2, as linkerd's does; ours takes HTTP/1 as it is.
    pub(super) http2_upgrade: bool,
}

impl Settings {
    /// `number_of` is for an object that has ports itself; what a Namespace says gets its numbers with [`Settings::for_ports`].
    pub(super) fn read<T>(
        object: &Sourced<T>,
        annotations: Annotations<'_, '_>,
        number_of: Option<NumberOf<'_>>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut ports = |name: &str| {
            let (field, text) = get(annotations, name)?;
            let (mut ports, mut wrong) = Ports::parse(text);
            let unknown = number_of.map(|number_of| ports.number(number_of)).unwrap_or_default();
            let left_out = |name: &str| format!("{}; it is ignored", value::no_such_port(name));
            wrong.extend(unknown.iter().map(|name| left_out(name)));
            problems.extend(wrong.into_iter().map(|message| object.problem(&field, message)));
            Some(ports)
        };
        let (opaque, skip_inbound) = (ports("opaque-ports"), ports("skip-inbound-ports"));
        let require_identity = ports("proxy-require-identity-inbound-ports");
        let policy = get(annotations, DEFAULT).map(|(field, text)| {
            value::policy(text).unwrap_or_else(|message| {
                // An operator who meant to close must not find it open.
                problems.push(object.problem(
                    field,
                    format!("{message}; until it is corrected, the policy is deny"),
                ));
                DefaultPolicy::Deny
            })
        });
        let meshed = annotations(MESHED) == Some("true");
        let http2_upgrade =
            get(annotations, "http2-upgrade").is_some_and(|(_, text)| text == "true");
        let minimum = DefaultPolicy::default();
        Self { opaque, skip_inbound, require_identity, policy, minimum, meshed, http2_upgrade }
    }

    /// Adds what only a Namespace can say.
    fn with_minimum(
        mut self,
        namespace: &Sourced<Namespace>,
        annotations: Annotations<'_, '_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let Some((field, text)) = get(annotations, MINIMUM) else { return self };
        self.minimum = value::policy(text).unwrap_or_else(|message| {
            let message = format!("{message}; until it is corrected, the minimum is deny");
            problems.push(namespace.problem(field, message));
            DefaultPolicy::Deny
        });
        problems.extend(self.exceeding(namespace, annotations, self.minimum));
        self
    }

    /// That an annotation asks for less than the minimum of its namespace.
    pub(super) fn exceeding<T>(
        &self,
        object: &Sourced<T>,
        annotations: Annotations<'_, '_>,
        minimum: DefaultPolicy,
    ) -> Option<Problem> {
        let policy = self.policy.filter(|policy| policy.exceeds(minimum))?;
        let (field, _) = get(annotations, DEFAULT)?;
        let message = format!(
            "{} admits clients that the {MINIMUM} of the Namespace does not admit: {}; the minimum holds",
            policy.as_str(),
            minimum.as_str()
        );
        Some(object.problem(field, message))
    }

    /// That an object has the annotation for a minimum, which only a Namespace can have.
    pub(super) fn misplaced_minimum<T>(
        object: &Sourced<T>,
        annotations: Annotations<'_, '_>,
    ) -> Option<Problem> {
        let (field, _) = get(annotations, MINIMUM)?;
        Some(object.problem(field, "only a Namespace has a minimum; the annotation has no effect"))
    }

    /// What a Namespace says for a pod or Service with these ports: a name that is none of them says nothing.
    pub(super) fn for_ports(mut self, number_of: NumberOf<'_>) -> Self {
        let lists = [&mut self.opaque, &mut self.skip_inbound, &mut self.require_identity];
        for ports in lists.into_iter().flatten() {
            ports.number(number_of);
        }
        self
    }
}

/// The annotation under either prefix: its field path and value.
fn get<'text>(annotations: Annotations<'_, 'text>, name: &str) -> Option<(String, &'text str)> {
    prefixes(name).find_map(|prefix| {
        let key = format!("{prefix}{name}");
        let value = annotations(&key)?;
        Some((format!("metadata.annotations[{key}]"), value.trim()))
    })
}

/// Annotations of an object in its published type.
pub(super) fn published<'a>(metadata: &'a ObjectMeta) -> impl Fn(&str) -> Option<&'a str> {
    move |name| metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Settings of every namespace that has some.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NamespaceSettings(BTreeMap<Arc<str>, Settings>);

impl NamespaceSettings {
    pub(super) fn read(namespaces: &[Sourced<Namespace>], problems: &mut Vec<Problem>) -> Self {
        let read = |namespace: &Sourced<Namespace>| {
            let annotations = published(&namespace.object.metadata);
            let settings = Settings::read(namespace, &annotations, None, problems);
            let settings = settings.with_minimum(namespace, &annotations, problems);
            (namespace.key.name.clone(), settings)
        };
        Self(namespaces.iter().map(read).collect())
    }

    pub(super) fn get(&self, namespace: &str) -> Option<&Settings> {
        self.0.get(namespace)
    }

    /// What the pods of a namespace cannot loosen.
    pub(super) fn minimum(&self, namespace: &str) -> DefaultPolicy {
        self.get(namespace).map_or_else(DefaultPolicy::default, |settings| settings.minimum)
    }
}
