//! What values mean, as far as the schema cannot say it: a value that would be rendered, and then refused by the API server or end the
//! control plane again and again, is refused by its name.

use crate::certificates::ISSUER_LIFE_SECONDS;
use leno_inject::annotation::{MEMORY_LIMIT_MIN, value};
use leno_text::duration;
use serde_json::Value;

/// Every mistake, each with its name. What is of another type is the schema's to say.
#[must_use]
pub fn check(values: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let control = &values["control"];
    read("control.image", &control["image"], value::image, &mut wrong);
    read("proxy.image", &values["proxy"]["image"], value::image, &mut wrong);
    read("control.logLevel", &control["logLevel"], value::log_level, &mut wrong);
    let life = &values["identity"]["leafLifetime"];
    read("identity.leafLifetime", life, leaf_lifetime, &mut wrong);
    resources("control.resources", &control["resources"], &mut wrong);
    let tracing = &values["proxy"]["tracing"];
    let endpoint = &tracing["provider"]["endpoint"];
    let collector = |text: &str| match text {
        "" => Ok(String::new()),
        text => value::collector(text),
    };
    read("proxy.tracing.provider.endpoint", endpoint, collector, &mut wrong);
    read("proxy.tracing.samplingRate", &tracing["samplingRate"], value::share, &mut wrong);
    let proxy = &values["proxy"]["resources"];
    resources("proxy.resources", proxy, &mut wrong);
    of_proxies(proxy, &mut wrong);
    wrong
}

fn read<T>(
    name: &str,
    value: &Value,
    of: impl Fn(&str) -> Result<T, String>,
    wrong: &mut Vec<String>,
) {
    if let Some(Err(why)) = value.as_str().map(of) {
        wrong.push(format!("{name}: {why}"));
    }
}

/// No certificate outlives its issuer, so that more than an issuer's life is never had.
fn leaf_lifetime(text: &str) -> Result<(), String> {
    let days = ISSUER_LIFE_SECONDS / (24 * 60 * 60);
    match duration::parse(text) {
        Ok(lifetime) if lifetime.as_secs() > ISSUER_LIFE_SECONDS => {
            Err(format!("{text:?} is greater than {days}d, the lifetime of an issuer"))
        }
        Ok(lifetime) if lifetime.as_secs() == 0 => {
            Err(format!("{text:?} is too short: at least 1s"))
        }
        Ok(_) => Ok(()),
        // Beside the schema, whose message is a pattern.
        Err(why) => Err(why),
    }
}

/// A quantity as it is written; a number may stand for one.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What becomes arguments of the control plane, which puts it into every pod.
fn of_proxies(resources: &Value, wrong: &mut Vec<String>) {
    let limit = text(&resources["limits"]["memory"]);
    if let Some(limit) = limit.filter(|limit| {
        value::millis(limit).is_some_and(|amount| Some(amount) < value::millis(MEMORY_LIMIT_MIN))
    }) {
        wrong.push(format!(
            "proxy.resources.limits.memory: {limit} is less than {MEMORY_LIMIT_MIN}, the least that a proxy needs to start"
        ));
    }
}

/// Quantities, and no request of more than its limit.
fn resources(of: &str, resources: &Value, wrong: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        for (name, value) in resources[list].as_object().into_iter().flatten() {
            if let Some(text) = text(value).filter(|text| value::millis(text).is_none()) {
                wrong.push(format!(
                    "{of}.{list}.{name}: {text:?} is not a quantity such as 100m, 0.5 or 16Mi"
                ));
            }
        }
    }
    for (name, asked) in resources["requests"].as_object().into_iter().flatten() {
        if let (Some(asked), Some(most)) = (text(asked), text(&resources["limits"][name]))
            && let (Some(requested), Some(limit)) = (value::millis(&asked), value::millis(&most))
            && requested > limit
        {
            wrong.push(format!("{of}.requests.{name}: {asked} is greater than the limit, {most}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::chart;
    use crate::values::{Taken, merge, set};

    #[test]
    fn what_would_be_refused_later() {
        let check = |line: &str, expected: &[&str]| {
            let mut values = chart::defaults();
            merge(&mut values, set(line, Taken::AsTheyLook).unwrap());
            assert_eq!(chart::mistakes(&values), expected, "{line}");
        };
        check("control.logLevel=debug", &[]);
        check("proxy.tracing.provider.endpoint=grpc://otel.obs:4317", &[]);
        check("proxy.tracing.provider.endpoint=", &[]);
        check(
            "proxy.tracing.provider.endpoint=http://otel,proxy.tracing.samplingRate=101%",
            &[
                "proxy.tracing.provider.endpoint: \"http://otel\" is not http://HOST:PORT or grpc://HOST:PORT",
                "proxy.tracing.samplingRate: \"101%\" is not a share from 0% to 100%",
            ],
        );
        check(r"control.logLevel=info\,leno_control::ca=debug", &[]);
        check(
            "control.logLevel=blah",
            &[
                "control.logLevel: \"blah\" is not a level (off, error, warn, info, debug, trace) or TARGET=LEVEL",
            ],
        );
        check("proxy.image=a", &["proxy.image: \"a\" is not an image with a tag or digest"]);
        check(
            "control.image=host:5000/leno",
            &["control.image: \"host:5000/leno\" is not an image with a tag or digest"],
        );
        check("control.image=host:5000/leno@sha256:00ff", &[]);
        check("identity.leafLifetime=365d", &[]);
        check(
            "identity.leafLifetime=99999999999999999999s",
            &[
                "identity.leafLifetime: \"99999999999999999999s\" is too long: the longest duration is 36500d",
            ],
        );
        for long in ["366d", "8761h"] {
            let expected = format!(
                "identity.leafLifetime: {long:?} is greater than 365d, the lifetime of an issuer"
            );
            check(&format!("identity.leafLifetime={long}"), &[&expected]);
        }
        check("control.resources.requests.cpu=0,control.resources.limits.cpu=1", &[]);
        check(
            "control.resources.requests.cpu=abc,control.resources.limits.memory=-1",
            &[
                "control.resources.requests.cpu: \"abc\" is not a quantity such as 100m, 0.5 or 16Mi",
                "control.resources.limits.memory: \"-1\" is not a quantity such as 100m, 0.5 or 16Mi",
            ],
        );
        check(
            "control.resources.requests.memory=1Gi",
            &["control.resources.requests.memory: 1Gi is greater than the limit, 256Mi"],
        );
        check("proxy.resources.requests.cpu=10m,proxy.resources.limits.memory=64Mi", &[]);
        check(
            "proxy.resources.limits.memory=16Mi,proxy.resources.requests.cpu=much",
            &[
                "proxy.resources.requests.cpu: \"much\" is not a quantity such as 100m, 0.5 or 16Mi",
                "proxy.resources.requests.memory: 20Mi is greater than the limit, 16Mi",
            ],
        );
        check(
            "proxy.resources.requests=null,proxy.resources.limits.memory=4Mi",
            &[
                "proxy.resources.limits.memory: 4Mi is less than 8Mi, the least that a proxy needs to start",
            ],
        );
    }
}
