//! Label selectors.

use crate::limit::SELECTOR_CONDITIONS_MAX;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Which labels an object must have; no condition selects every object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selector(Vec<(Box<str>, Needed)>);

/// What a label must be.
#[derive(Clone, Debug, PartialEq)]
enum Needed {
    OneOf(Vec<Box<str>>),
    NoneOf(Vec<Box<str>>),
    There,
    Absent,
}

impl Selector {
    /// Reads a selector. An expression that is not valid selects everything, so that a Server closes no fewer ports than its author
    /// meant; so do conditions beyond the limit. The second part has the field behind the selector's, and the message, of each.
    pub(super) fn read(selector: &LabelSelector) -> (Self, Vec<(String, String)>) {
        let (mut conditions, mut wrong) = (Vec::new(), Vec::new());
        for (label, value) in selector.match_labels.iter().flatten() {
            let needed = Needed::OneOf(vec![value.as_str().into()]);
            conditions.push((label.as_str().into(), needed));
        }
        for (number, one) in selector.match_expressions.iter().flatten().enumerate() {
            let values = one.values.iter().flatten().map(|value| value.as_str().into()).collect();
            let needed = match one.operator.as_str() {
                "In" => Needed::OneOf(values),
                "NotIn" => Needed::NoneOf(values),
                "Exists" => Needed::There,
                "DoesNotExist" => Needed::Absent,
                other => {
                    let message = format!(
                        "{other:?} is not one of In, NotIn, Exists, DoesNotExist; the expression is left out"
                    );
                    wrong.push((format!(".matchExpressions[{number}].operator"), message));
                    continue;
                }
            };
            conditions.push((one.key.as_str().into(), needed));
        }
        let count = conditions.len();
        if count > SELECTOR_CONDITIONS_MAX {
            conditions.truncate(SELECTOR_CONDITIONS_MAX);
            let message =
                format!("{count} conditions; only the first {SELECTOR_CONDITIONS_MAX} are used");
            wrong.push((String::new(), message));
        }
        (Self(conditions), wrong)
    }

    /// Whether an object with these labels is selected.
    pub(super) fn selects<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let is_one = |values: &[Box<str>], value: Option<&str>| {
            value.is_some_and(|value| values.iter().any(|one| &**one == value))
        };
        self.0.iter().all(|(name, needed)| match needed {
            Needed::OneOf(values) => is_one(values, label(name)),
            Needed::NoneOf(values) => !is_one(values, label(name)),
            Needed::There => label(name).is_some(),
            Needed::Absent => label(name).is_none(),
        })
    }
}
