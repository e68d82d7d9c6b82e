//! What a namespace's minimum takes from rules, in sentences for the objects that ask for more.

use crate::world::settings::MINIMUM;
use leno_model::policy::{Authentication, Authorization, DefaultPolicy, every_network};

/// That `what` is narrowed.
pub(super) fn below(what: &str, minimum: DefaultPolicy) -> String {
    format!(
        "{what} admits clients that the {MINIMUM} of the Namespace does not admit: {}; the minimum holds",
        minimum.as_str()
    )
}

/// What is wrong with a rule that asks for clients which the minimum does not admit. A rule that says nothing about networks asks for none.
pub(super) fn exceeded(rule: &Authorization, minimum: DefaultPolicy) -> Option<String> {
    let bound = minimum.bound()?;
    let is_by_identity = |rule: &Authorization| {
        matches!(rule.authentication, Authentication::TlsAuthenticated { .. })
    };
    let lacks_identity = is_by_identity(&bound) && !is_by_identity(rule);
    let narrowed = rule.within(&bound);
    let networks = narrowed.map_or_else(Vec::new, |narrowed| narrowed.networks);
    let is_wider = rule.networks != every_network() && networks != rule.networks;
    (lacks_identity || is_wider).then(|| below("the rule", minimum))
}
