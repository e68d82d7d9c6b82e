//! What became of a route on the Services that it names, in the Gateway API's words. Written into its status by `status`.

use crate::source::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Why a Service or Server does not take a route: it does not exist, or not with this port.
pub(in crate::world) const NO_MATCHING_PARENT: &str = "NoMatchingParent";

/// A condition of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True` or `False`.
    pub holds: bool,
    /// One word, for programs.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

impl Condition {
    pub(in crate::world) fn good(reason: &'static str) -> Self {
        Self { holds: true, reason, message: String::new() }
    }
}

/// What became of a route on one of its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnParent {
    /// Which of `spec.parentRefs`.
    pub parent: usize,
    /// `Accepted`.
    pub accepted: Condition,
    /// `ResolvedRefs`.
    pub resolved: Condition,
    /// `PartiallyInvalid`, where a part of the route is served as a failure.
    pub partly: Option<Condition>,
}

/// What became of a route. Parents that are not Services are others' and not among these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub route: Key,
    /// `metadata.uid`: a route that is made anew begins with the same generation.
    pub uid: Option<String>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// On each Service.
    pub parents: Vec<OnParent>,
}

impl Verdict {
    /// Whether a parent takes the route.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.parents.iter().any(|on| on.accepted.holds)
    }
}

/// The number of a parent reference that is a Server, and why the Server does not take the route: one word, and a text for a person.
pub(in crate::world) type OnServer = (usize, Option<(&'static str, String)>);

/// Findings about one route while it is compiled; the first of each kind is reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Which parents are Services, and why one does not take the route: in one word, and for a person.
    pub(super) parents: Vec<(usize, Option<(&'static str, String)>)>,
    /// A backend that is not to be had.
    pub(super) unresolved: Option<(&'static str, String)>,
    /// A rule that answers with a failure, since it has what we do not serve.
    pub(super) unsupported: Option<String>,
    /// Rules that are served as they are written.
    pub(super) rules_good: usize,
}

/// A Service has as many routes as it may have: a word of ours.
const TOO_MANY_ROUTES: &str = "TooManyRoutes";

impl Findings {
    /// A parent has no room for the route.
    pub(super) fn crowded_out(&mut self, number: usize, why: String) {
        let parent = self.parents.iter_mut().find(|(parent, _)| *parent == number);
        parent.into_iter().for_each(|(_, missing)| *missing = Some((TOO_MANY_ROUTES, why.clone())));
    }

    pub(super) fn verdict(self, route: Key, metadata: &ObjectMeta) -> Verdict {
        let resolved = match self.unresolved {
            None => Condition::good("ResolvedRefs"),
            Some((reason, message)) => Condition { holds: false, reason, message },
        };
        let unsupported = self.unsupported.map(|message| (self.rules_good, message));
        let on_parent = |(parent, missing): (usize, Option<(&'static str, String)>)| {
            let mut partly = None;
            let accepted = match (missing, &unsupported) {
                (Some((reason, message)), _) => Condition { holds: false, reason, message },
                (None, None) => Condition::good("Accepted"),
                (None, Some((0, message))) => {
                    Condition { holds: false, reason: "UnsupportedValue", message: message.clone() }
                }
                (None, Some((_, message))) => {
                    let message = message.clone();
                    partly = Some(Condition { holds: true, reason: "UnsupportedValue", message });
                    Condition::good("Accepted")
                }
            };
            OnParent { parent, accepted, resolved: resolved.clone(), partly }
        };
        let parents = self.parents.into_iter().map(on_parent).collect();
        Verdict { route, uid: metadata.uid.clone(), generation: metadata.generation, parents }
    }
}
