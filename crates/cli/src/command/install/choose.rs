//! Flags to values of the chart.

use crate::args::Choice;
use anyhow::{Context as _, Result, bail};
use leno_install::certificates::{self, Identity, Pair};
use leno_install::{chart, template, values};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Values that become complete.
pub(super) struct Choosing {
    /// What was given, now or before, over nothing.
    given: Value,
    /// PEM of the flags.
    issuer: Option<Pair>,
    anchors: Option<String>,
    identity: Option<Identity>,
}

impl Choosing {
    /// From flags, over what was given before.
    pub(super) fn new(choice: &Choice, mut given: Value) -> Result<Self> {
        if choice.ha {
            values::merge(&mut given, chart::high_availability());
        }
        for file in &choice.values {
            let text = read(file)?;
            let read = values::read(&text).map_err(|why| wrong(&file.display(), &why))?;
            values::merge_keeping_null(&mut given, read);
        }
        for (lines, taken, flag) in [
            (&choice.set, values::Taken::AsTheyLook, "--set"),
            (&choice.set_string, values::Taken::AsText, "--set-string"),
        ] {
            for line in lines {
                let set = values::set(line, taken).map_err(|why| wrong(&flag, &why))?;
                values::merge_keeping_null(&mut given, set);
            }
        }
        for (flag, path) in [
            (&choice.control_image, ["control", "image"]),
            (&choice.proxy_image, ["proxy", "image"]),
            (&choice.identity_trust_domain, ["identity", "trustDomain"]),
        ] {
            if let Some(text) = flag {
                values::merge(&mut given, json!({path[0]: {path[1]: text}}));
            }
        }
        if let Some(registry) = &choice.registry {
            values::merge(&mut given, json!({"registry": registry}));
        }
        let mut complete = chart::defaults();
        values::merge(&mut complete, given.clone());
        let mistakes = chart::mistakes(&complete);
        if !mistakes.is_empty() {
            bail!("{}", mistakes.join("\nleno: "));
        }
        let pem = |path: &Option<_>| {
            path.as_ref().map(|path: &std::path::PathBuf| read(path)).transpose()
        };
        let certificate = pem(&choice.identity_issuer_certificate_file)?;
        let key = pem(&choice.identity_issuer_key_file)?;
        let issuer = certificate.zip(key).map(|(certificate, key)| Pair { certificate, key });
        let anchors = pem(&choice.identity_trust_anchors_file)?;
        Ok(Self { given, issuer, anchors, identity: None })
    }

    fn complete(&self) -> Value {
        let mut complete = chart::defaults();
        values::merge(&mut complete, self.given.clone());
        complete
    }

    /// Kinds of the Prometheus operator that the values ask for, each with its value.
    pub(super) fn monitoring_kinds(&self) -> Vec<(&'static str, &'static str)> {
        let complete = self.complete();
        let mut kinds = vec![("podMonitor", "PodMonitor"), ("alerts", "PrometheusRule")];
        kinds.retain(|(value, _)| complete[value]["enabled"] == Value::Bool(true));
        kinds
    }

    /// Whether linkerd's annotation puts pods into the mesh.
    pub(super) fn reads_linkerds(&self) -> bool {
        self.complete()["injector"]["linkerdAnnotations"] == Value::Bool(true)
    }

    /// Whether the namespace is made: what was said, now or before. Nothing said is yes.
    pub(super) fn makes_namespace(&self) -> Option<bool> {
        self.given.get("createNamespace")?.as_bool()
    }

    /// The namespace is somebody's own: it is not made, and an upgrade knows that.
    pub(super) fn leave_namespace(&mut self) {
        values::merge(&mut self.given, json!({"createNamespace": false}));
    }

    /// The trust domain that was chosen.
    pub(super) fn trust_domain(&self) -> String {
        self.complete()["identity"]["trustDomain"].as_str().unwrap_or_default().to_owned()
    }

    /// The roots of before, where an issuer comes without any.
    pub(super) fn anchors_or(&mut self, before: Option<&str>) -> Result<()> {
        if self.issuer.is_some() && self.anchors.is_none() {
            self.anchors = before.map(str::to_owned);
        }
        Ok(())
    }

    /// The identity that flags or values bring, checked; else the other one. None where others make it.
    pub(super) fn identity_or(
        &mut self,
        now: u64,
        other: impl FnOnce(&str) -> Result<Identity>,
    ) -> Result<()> {
        let complete = self.complete();
        let identity = &complete["identity"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let domain = text(&identity["trustDomain"]);
        let external = identity["external"] == Value::Bool(true);
        if external {
            if self.issuer.is_some() {
                bail!(
                    "identity.external means that another program creates the issuer; do not give one with a flag"
                );
            }
            if let Some(anchors) = self.anchors.take() {
                values::merge(&mut self.given, json!({"identity": {"trustAnchors": anchors}}));
            }
            return Ok(());
        }
        let in_values = Pair {
            certificate: text(&identity["issuer"]["certificate"]),
            key: text(&identity["issuer"]["key"]),
        };
        let issuer =
            self.issuer.take().or_else(|| (!in_values.certificate.is_empty()).then_some(in_values));
        let anchors = self.anchors.take().or_else(|| {
            Some(text(&identity["trustAnchors"])).filter(|anchors| !anchors.is_empty())
        });
        let found = match (issuer, anchors) {
            (Some(issuer), Some(anchors)) => Identity { anchors, issuer, root: None },
            (Some(_), None) => bail!(
                "an issuer needs its roots, which every proxy trusts: --identity-trust-anchors-file is missing"
            ),
            (None, anchors) => {
                let mut other = other(&domain)?;
                // On an upgrade roots are added or taken away alone.
                other.anchors = anchors.unwrap_or(other.anchors);
                other
            }
        };
        let life = certificates::examine(&found.issuer, &found.anchors, &domain)?;
        certificates::dates(life, now)?;
        if let Some(left) = certificates::expires_soon(life, now, false) {
            eprintln!(
                "leno: the issuer expires in {}, and proxies get no certificate from then on; `leno upgrade` with \
                 --renew-issuer or --identity-issuer-certificate-file replaces it",
                leno_install::check::facts::span(left)
            );
        }
        self.identity = Some(found);
        Ok(())
    }

    /// All values, with what was given written beside them but for keys and certificates.
    pub(super) fn finish(mut self) -> Value {
        let mut complete = self.complete();
        if let Some(identity) = self.given.get_mut("identity").and_then(Value::as_object_mut) {
            identity.remove("issuer");
            identity.remove("root");
            if identity.get("external") != Some(&Value::Bool(true)) {
                identity.remove("trustAnchors");
            }
        }
        let given = template::to_yaml(&self.given).unwrap_or_default();
        let mut made = json!({"createNamespace": true, "given": given});
        if let Some(identity) = self.identity {
            let root = identity.root.map_or_else(
                || json!({"certificate": "", "key": ""}),
                |root| json!({"certificate": root.certificate, "key": root.key}),
            );
            made["identity"] = json!({
                "trustAnchors": identity.anchors,
                "issuer": {"certificate": identity.issuer.certificate, "key": identity.issuer.key},
                "root": root,
            });
        }
        if let Some(said) = self.given.get("createNamespace") {
            made["createNamespace"] = said.clone();
        }
        values::merge(&mut complete, made);
        complete
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn wrong(of: &dyn std::fmt::Display, why: &str) -> anyhow::Error {
    anyhow::anyhow!("{of}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_install::values::read as read_values;

    const NOW: u64 = 1_800_000_000;

    fn chosen(choice: &Choice, before: Value) -> Result<Value> {
        let mut choosing = Choosing::new(choice, before)?;
        choosing.identity_or(NOW, |domain| Ok(certificates::make(domain, NOW)?))?;
        Ok(choosing.finish())
    }

    fn set(line: &str) -> Choice {
        Choice { set: vec![line.to_owned()], ..Choice::default() }
    }

    #[test]
    fn what_is_given_is_written_down_without_keys() {
        let mut choice = set("control.replicas=2,control.resources.limits=null");
        choice.proxy_image = Some("proxy:1".to_owned());
        let values = chosen(&choice, json!({"control": {"logLevel": "debug"}})).unwrap();
        assert_eq!(values["control"]["replicas"], 2);
        assert_eq!(values["control"]["logLevel"], "debug");
        assert_eq!(values["control"]["resources"].get("limits"), None);
        assert_eq!(values["createNamespace"], true);
        let given = read_values(values["given"].as_str().unwrap()).unwrap();
        assert_eq!(given["control"]["replicas"], 2);
        assert_eq!(given["proxy"]["image"], "proxy:1");
        assert!(values["identity"]["issuer"]["key"].as_str().unwrap().contains("PRIVATE"));
        assert!(!values["given"].as_str().unwrap().contains("BEGIN"));
        chart::render(&values, "leno").unwrap();
    }

    /// GitOps: with the same keys, two runs print the same.
    #[test]
    fn the_same_input_gives_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let made = certificates::make("cluster.local", NOW).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let choice = Choice {
            ha: true,
            registry: Some("registry.example.com/mesh".to_owned()),
            identity_issuer_certificate_file: file("issuer.pem", &made.issuer.certificate),
            identity_issuer_key_file: file("issuer.key", &made.issuer.key),
            identity_trust_anchors_file: file("roots.pem", &made.anchors),
            ..set("proxy.metrics=full")
        };
        let printed = || {
            let objects = chart::render(&chosen(&choice, json!({})).unwrap(), "leno").unwrap();
            objects.iter().map(|object| object.text.clone()).collect::<String>()
        };
        let first = printed();
        assert!(first.contains("registry.example.com/mesh/leno-proxy:"), "{first}");
        assert_eq!(first, printed());
    }

    #[test]
    fn what_is_refused() {
        let check = |choice: &Choice, expected: &str| {
            let wrong = chosen(choice, json!({})).unwrap_err().to_string();
            assert!(wrong.contains(expected), "{wrong}\nshould contain\n{expected}");
        };
        check(
            &set("control.replica=2"),
            "control.replica is unknown; known values here: affinity, image",
        );
        check(&set("control.replicas=two"), "control.replicas: \"two\" is not of type integer");
        check(
            &set("control.logLevel=blah,proxy.image=a"),
            "proxy.image: \"a\" is not an image with a tag or digest\nleno: control.logLevel: \"blah\" is not a level",
        );
        check(&set("control"), "--set: \"control\" is not NAME=VALUE");
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let made = certificates::make("cluster.local", NOW).unwrap();
        let other = certificates::make("cluster.local", NOW).unwrap();
        let brought = Choice {
            identity_issuer_certificate_file: file("issuer.pem", &made.issuer.certificate),
            identity_issuer_key_file: file("key.pem", &made.issuer.key),
            identity_trust_anchors_file: file("roots.pem", &made.anchors),
            ..Choice::default()
        };
        let values = chosen(&brought, json!({})).unwrap();
        assert_eq!(values["identity"]["root"]["key"], "");
        check(&Choice { identity_trust_anchors_file: None, ..brought.clone() }, "needs its roots");
        let roots = file("other.pem", &other.anchors);
        let not_signed = Choice { identity_trust_anchors_file: roots, ..brought.clone() };
        check(&not_signed, "not signed by a trust anchor");
        let key = file("other-key.pem", &other.issuer.key);
        check(&Choice { identity_issuer_key_file: key, ..brought.clone() }, "does not belong");
        let external = Choice { set: vec!["identity.external=true".to_owned()], ..brought };
        check(&external, "another program creates the issuer");
    }

    #[test]
    fn an_issuer_of_others_is_not_made() {
        let values = chosen(&set("identity.external=true"), json!({})).unwrap();
        assert_eq!(values["identity"]["issuer"]["key"], "");
        let objects = chart::render(&values, "leno").unwrap();
        assert!(objects.iter().all(|object| object.value["kind"] != "Secret"));
    }
}
