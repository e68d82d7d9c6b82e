//! Routes in their published types, with what these cannot hold.
//!
//! The Gateway API adds kinds of filters and matches, and asks of those who do not know one that they say so and fail its requests. So what
//! a type has no word for costs the part of the route in which it is, and not the route: that part is cut out and noted, and
//! [`crate::world::route`] answers with a failure for it. In a directory of manifests, where no API server has looked at it, such a word is
//! a mistake as in any other object, and the last good state stays: see [`super::parse`].

use super::parse::readable;
use leno_manifest::typed::{self, Mistake, Typed};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Every part that is cut out costs one more reading of the route. After so many it is whole rules that are cut out.
const PARTS_CUT_OUT_MAX: usize = 32;

/// A route, without its status: nobody reads that, and every write of it would be a new route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route<T> {
    /// In its published type. A filter that was cut out is one by reference to an extension, a match is empty, a rule has its matches alone.
    pub object: T,
    /// Parts that were cut out or say more than was read, e.g. `spec.rules[0].filters[1]`, and why.
    wrong: Vec<(String, String)>,
    /// Other fields that the type does not have.
    pub unknown: Vec<String>,
    /// Fields of its rules that the type does not have, by the rule's number.
    beside: BTreeMap<usize, Beside>,
}

/// Fields of a rule that the type does not have, as they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// GEP-1731.
    pub retry: Option<Value>,
    /// GEP-1619.
    pub session_persistence: Option<Value>,
}

impl<T> Route<T> {
    /// Fields of a rule that the type does not have.
    pub fn beside(&self, rule: usize) -> Option<&Beside> {
        self.beside.get(&rule)
    }

    /// What is wrong with a part, where it is not what its author wrote.
    pub fn wrong(&self, part: &str) -> Option<&str> {
        self.wrong.iter().find(|(wrong, _)| wrong == part).map(|(_, why)| why.as_str())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Route<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(Value::deserialize(deserializer)?).map_err(|Mistake { field, message }| {
            D::Error::custom(match readable(&field).as_str() {
                "" => message,
                field => format!("{field}: {message}"),
            })
        })
    }
}

fn read<T: DeserializeOwned>(mut value: Value) -> Result<Route<T>, Mistake> {
    if let Some(route) = value.as_object_mut() {
        route.remove("status");
    }
    let beside = take_beside(&mut value);
    let mut wrong: Vec<(String, String)> = Vec::new();
    loop {
        let Typed { object, unknown } = typed::read::<T>(&value);
        match object {
            Ok(object) => {
                let mut route = Route { object, wrong, unknown: Vec::new(), beside };
                unknown.iter().for_each(|field| route.note(field));
                return Ok(route);
            }
            Err(mistake) => {
                // The whole route is read again for each of them.
                if wrong.len() >= 2 * PARTS_CUT_OUT_MAX {
                    return Err(mistake);
                }
                let whole_rule = wrong.len() >= PARTS_CUT_OUT_MAX;
                let part =
                    cut_out(&mut value, &mistake.field, whole_rule).ok_or(mistake.clone())?;
                if wrong.iter().any(|(before, _)| *before == part) {
                    return Err(mistake);
                }
                wrong.push((part, mistake.message));
            }
        }
    }
}

/// A rule that is `null` or no object has none.
fn take_beside(value: &mut Value) -> BTreeMap<usize, Beside> {
    let rules = value.pointer_mut("/spec/rules").and_then(Value::as_array_mut);
    let take = |(number, rule): (usize, &mut Value)| {
        let rule = rule.as_object_mut()?;
        let mut take = |name| rule.remove(name).filter(|field| !field.is_null());
        let (retry, session_persistence) = (take("retry"), take("sessionPersistence"));
        let beside = Beside { retry, session_persistence };
        (beside != Beside::default()).then_some((number, beside))
    };
    rules.into_iter().flatten().enumerate().filter_map(take).collect()
}

impl<T> Route<T> {
    /// A field that the type does not have. Without it a filter does less than its author wrote, and a match takes more.
    fn note(&mut self, field: &str) {
        let part = part_of(field);
        if matches!(part, Some(Part::Filter(_) | Part::Match(_))) {
            let (part, _) = part.map(Part::place).unwrap_or_default();
            let last = field.rsplit('.').next().unwrap_or(field);
            self.wrong.push((readable(&part), format!("unknown field {last}")));
        // Types of the Gateway API have these by derivation and do not read them.
        } else if field != "apiVersion" && field != "kind" {
            self.unknown.push(readable(field));
        }
    }
}

/// The smallest part of a route that fails by itself, dotted.
enum Part {
    Filter(String),
    Match(String),
    Rule(String),
}

impl Part {
    /// Where it is, and what is put there.
    fn place(self) -> (String, Value) {
        match self {
            Self::Filter(place) => (place, json!({"type": "ExtensionRef"})),
            Self::Match(place) | Self::Rule(place) => (place, json!({})),
        }
    }
}

fn part_of(field: &str) -> Option<Part> {
    let names: Vec<&str> = field.split('.').collect();
    let first = |count: usize| names[..count].join(".");
    match names[..] {
        ["spec", "rules", _, "filters", _, ..] => Some(Part::Filter(first(5))),
        ["spec", "rules", _, "backendRefs", _, "filters", _, ..] => Some(Part::Filter(first(7))),
        ["spec", "rules", _, "matches", _, ..] => Some(Part::Match(first(5))),
        ["spec", "rules", _, ..] => Some(Part::Rule(first(3))),
        _ => None,
    }
}

/// Takes the part out in which a field is; answers which that was.
fn cut_out(value: &mut Value, field: &str, whole_rule: bool) -> Option<String> {
    let part = match part_of(field)? {
        Part::Filter(_) | Part::Match(_) if whole_rule => {
            Part::Rule(field.splitn(4, '.').take(3).collect::<Vec<_>>().join("."))
        }
        part => part,
    };
    let keeps_matches = matches!(part, Part::Rule(_)) && !whole_rule;
    let (place, mut instead) = part.place();
    let found = value.pointer_mut(&format!("/{}", place.replace('.', "/")))?;
    if keeps_matches && let Some(matches @ Value::Array(_)) = found.get_mut("matches") {
        instead["matches"] = matches.take();
    }
    *found = instead;
    Some(readable(&place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_api::httproutes::HttpRoute;

    /// What is noted of a route with these rules, or what is wrong with all of it.
    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        let value = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "r"}, "spec": spec, "status": 7});
        let shown: Vec<String> = match Route::<HttpRoute>::deserialize(&value) {
            Ok(route) => {
                let wrong = route.wrong.iter().map(|(part, why)| format!("{part}: {why}"));
                wrong.chain(route.unknown.iter().map(|field| format!("unknown {field}"))).collect()
            }
            Err(error) => vec![format!("not read: {error}")],
        };
        assert_eq!(shown.len(), expected.len(), "{shown:#?}");
        for (shown, expected) in shown.iter().zip(expected) {
            assert!(shown.starts_with(expected), "{shown}\nshould begin with\n{expected}");
        }
    }

    #[test]
    fn what_a_newer_gateway_api_says_costs_the_part_that_says_it() {
        let later = || json!({"type": "Later", "later": {}});
        let good = || json!({"type": "URLRewrite", "urlRewrite": {"hostname": "a"}});
        let rules = |rules: Value| json!({"rules": rules});
        check(rules(json!([{"filters": [good()]}])), &[]);
        check(
            rules(json!([{"filters": [good(), later()]}, {"filters": [later()]}])),
            &[
                "spec.rules[0].filters[1]: unknown variant `Later`",
                "spec.rules[1].filters[0]: unknown variant `Later`",
            ],
        );
        check(
            rules(json!([{"backendRefs": [{"name": "a", "filters": [later()]}]}])),
            &["spec.rules[0].backendRefs[0].filters[0]: unknown variant `Later`"],
        );
        check(
            rules(
                json!([{"matches": [{"path": {"type": "Later", "value": "/"}}, {"method": "QUERY"}]}]),
            ),
            &[
                "spec.rules[0].matches[0]: unknown variant `Later`",
                "spec.rules[0].matches[1]: unknown variant `QUERY`",
            ],
        );
        check(
            rules(
                json!([{"matches": [{"cookies": []}], "retry": {"attempts": 2}, "filters": [{"type": "CORS", "later": 1}]}]),
            ),
            &[
                "spec.rules[0].filters[0]: unknown field later",
                "spec.rules[0].matches[0]: unknown field cookies",
            ],
        );
        check(json!({"rules": [], "later": 1}), &["unknown spec.later"]);
        // A mistake outside a rule concerns all rules.
        check(json!({"parentRefs": 7}), &["not read: spec.parentRefs: invalid type: integer `7`"]);
        check(json!(7), &["not read: spec: invalid type: integer `7`"]);
    }

    #[test]
    fn a_rule_that_cannot_be_read_keeps_its_matches() {
        let value = json!({"metadata": {"name": "r"}, "spec": {"rules": [
            {"matches": [{"method": "GET"}], "timeouts": 7, "backendRefs": [{"name": "a"}]},
            7,
        ]}});
        let route = Route::<HttpRoute>::deserialize(&value).unwrap();
        let rules = route.object.spec.rules.as_ref().unwrap();
        let kept = rules[0].matches.as_ref().map(Vec::len);
        assert_eq!((rules.len(), kept, rules[0].backend_refs.is_none()), (2, Some(1), true));
        assert!(route.wrong("spec.rules[0]").is_some() && route.wrong("spec.rules[1]").is_some());
    }

    /// However many parts are wrong, a route is read in so many steps.
    #[test]
    fn many_mistakes_are_cut_out_with_their_rules() {
        let filters = vec![json!({"type": "Later"}); 2 * PARTS_CUT_OUT_MAX];
        let value = json!({"metadata": {"name": "r"}, "spec": {"rules": [{"filters": filters}]}});
        let route = Route::<HttpRoute>::deserialize(&value).unwrap();
        assert_eq!(route.wrong.len(), PARTS_CUT_OUT_MAX + 1);
        assert!(route.wrong("spec.rules[0]").is_some());
    }
}
