//! Whether the API server asks the webhook about the pods that the chart says. The leader's own fields are not looked at here: each
//! `caBundle` is `webhook`'s, and who is named in the entry of annotated Namespaces changes while the mesh runs.

use super::facts::{CONFIG, Facts, WEBHOOK, text};
use super::{Verdict, failed, some_of, warning};
use crate::{chart, uninstall, values};
use leno_inject::annotation::INJECT;
use leno_inject::scope::Words;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Entries of other names are not ours.
const SUFFIX: &str = ".injector.leno.dev";
/// The leader's entry, and the one of which it is a copy.
const ANNOTATED: &str = "annotated-namespaces.injector.leno.dev";
const NAMESPACES: &str = "namespaces.injector.leno.dev";
/// The field in which others may say more.
const SELECTOR: &str = "namespaceSelector";
/// Fields that change how the webhook is called, but not for which pods.
const MANNERS: [&str; 5] = [
    "admissionReviewVersions",
    "matchPolicy",
    "reinvocationPolicy",
    "sideEffects",
    "timeoutSeconds",
];

pub(super) fn look(facts: &Facts, live: &Value) -> Option<Verdict> {
    let wanted = of_chart(facts)?;
    let find = |all: &[(String, Value)], name: &str| {
        all.iter().find(|(one, _)| one == name).map(|(_, entry)| entry.clone())
    };
    let (wanted, live) = (entries(&wanted), entries(live));
    let mut wrong = Vec::new();
    let mut manners = Vec::new();
    for (name, wanted) in &wanted {
        let Some(live) = find(&live, name) else {
            wrong.push(format!("there is no entry {name}"));
            continue;
        };
        differences(name, wanted, &live, &mut wrong, &mut manners);
    }
    for (name, live) in &live {
        let first = find(&wanted, NAMESPACES).filter(|_| name == ANNOTATED);
        if let Some(mut first) = first {
            // It is there for these Namespaces, whatever they are.
            first["namespaceSelector"] = live["namespaceSelector"].clone();
            differences(name, &first, live, &mut wrong, &mut manners);
        } else if find(&wanted, name).is_none() && name.ends_with(SUFFIX) {
            manners.push(format!("entry {name} is not in the chart"));
        }
    }
    let hint = "with other entries, some pods get no proxy and others may be rejected; restore it with leno upgrade | kubectl apply -f - (or helm upgrade, if Helm installed it)";
    let seen = |all: &[String]| format!("{WEBHOOK} differs from the chart: {}", some_of(all));
    if facts.object(CONFIG).is_some() && facts.config("version") != facts.version {
        wrong.append(&mut manners);
        let of_other = format!("; it may come from version {}", facts.config("version"));
        return (!wrong.is_empty()).then(|| warning(seen(&wrong) + &of_other, hint)).flatten();
    }
    if !wrong.is_empty() {
        wrong.append(&mut manners);
        return failed(seen(&wrong), hint);
    }
    (!manners.is_empty()).then(|| warning(seen(&manners), hint)).flatten()
}

/// The configuration that the chart makes with the installed values.
fn of_chart(facts: &Facts) -> Option<Value> {
    let mut chosen = chart::defaults();
    if let Ok(given) = values::read(facts.config("values")) {
        values::merge(&mut chosen, given);
    }
    // Helm writes no values down, but this one, of which an entry is made.
    let linkerds = facts.words() == Words::LinkerdsToo;
    values::merge(&mut chosen, json!({"injector": {"linkerdAnnotations": linkerds}}));
    // Certificates are not among the values that are kept, and nothing here is made of them.
    let pair = json!({"certificate": "-", "key": "-"});
    values::merge(&mut chosen, json!({"identity": {"trustAnchors": "-", "issuer": pair}}));
    let objects = chart::render(&chosen, &facts.namespace)
        .or_else(|_| uninstall::everything(&facts.namespace))
        .ok()?;
    let is_wanted = |object: &Value| object["kind"] == "MutatingWebhookConfiguration";
    objects.into_iter().map(|object| object.value).find(is_wanted)
}

/// Entries by name, each in one form.
fn entries(configuration: &Value) -> Vec<(String, Value)> {
    let all = configuration["webhooks"].as_array().into_iter().flatten();
    all.filter_map(|entry| Some((text(&entry["name"]).to_owned(), normal(entry.as_object()?))))
        .collect()
}

/// Whether a selector is the wanted one with more expressions that exclude objects with a foreign label. Managed clusters protect their own
/// namespaces in this way (the Admissions Enforcer of AKS), and restore such an expression after it is removed.
fn leaves_out_more(wanted: &Value, live: &Value) -> bool {
    let expressions = |of: &Value| of["matchExpressions"].as_array().cloned().unwrap_or_default();
    let rest = |of: &Value| {
        let mut rest = of.clone();
        if let Some(members) = rest.as_object_mut() {
            members.remove("matchExpressions");
        }
        rest
    };
    let (wanted_all, live_all) = (expressions(wanted), expressions(live));
    let is_of_others = |one: &Value| {
        ["NotIn", "DoesNotExist"].contains(&text(&one["operator"])) && one["key"] != INJECT
    };
    rest(wanted) == rest(live)
        && wanted_all.iter().all(|one| live_all.contains(one))
        && live_all.iter().all(|one| wanted_all.contains(one) || is_of_others(one))
}

fn differences(
    name: &str,
    wanted: &Value,
    live: &Value,
    wrong: &mut Vec<String>,
    manners: &mut Vec<String>,
) {
    let fields = |entry: &Value| {
        entry.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let all: BTreeSet<String> = [fields(wanted), fields(live)].concat().into_iter().collect();
    // Of a policy that lets pods through, `webhook` says what comes of it.
    let all = all.iter().map(String::as_str);
    let (how, whom): (Vec<&str>, Vec<&str>) = all
        .filter(|field| !["name", "failurePolicy"].contains(field))
        .filter(|field| wanted.get(field) != live.get(field))
        .filter(|field| *field != SELECTOR || !leaves_out_more(&wanted[SELECTOR], &live[SELECTOR]))
        .partition(|field| MANNERS.contains(field));
    for (fields, into) in [(how, manners), (whom, wrong)] {
        if !fields.is_empty() {
            into.push(format!("{name} differs in {}", fields.join(", ")));
        }
    }
}

/// With what the API server fills in where nothing is written, without the leader's fields; nothing depends on the order in lists.
fn normal(entry: &Map<String, Value>) -> Value {
    let mut entry = entry.clone();
    entry.retain(|_, value| !value.is_null());
    for (name, value) in [
        ("matchPolicy", json!("Equivalent")),
        ("matchConditions", json!([])),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("reinvocationPolicy", json!("Never")),
        ("rules", json!([])),
        ("timeoutSeconds", json!(10)),
    ] {
        entry.entry(name).or_insert(value);
    }
    if let Some(client) = entry.get_mut("clientConfig").and_then(Value::as_object_mut) {
        client.remove("caBundle");
        if let Some(service) = client.get_mut("service").and_then(Value::as_object_mut) {
            service.entry("port").or_insert(json!(443));
        }
    }
    for rule in entry.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            rule.entry("scope").or_insert(json!("*"));
        }
    }
    sorted(Value::Object(entry))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(members.map(|(name, value)| (name, sorted(value))).collect())
        }
        // A text that was folded over lines.
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
        other => other,
    }
}
