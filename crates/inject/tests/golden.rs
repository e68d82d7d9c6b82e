//! Whole files through `inject_file`, and back. `LENO_GOLDEN=write` writes what comes out into `golden/`.

use leno_inject::Mesh;
use leno_inject::file::{Done, Namespaces, Said, inject_file, uninject_file};
use serde_json::Value;
use std::path::Path;

fn inject(file: &str) -> Done {
    inject_file(file, "default", &Namespaces::new(), &Mesh::default())
}

/// What is said on standard error, and the file.
fn shown(done: &Done) -> String {
    let mut shown = String::new();
    for report in &done.reports {
        shown.push_str(&format!("# {report}\n"));
        for warning in &report.warnings {
            shown.push_str(&format!("#   {warning}\n"));
        }
    }
    format!("{shown}{}", done.text)
}

#[track_caller]
fn check(name: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = std::fs::read_to_string(directory.join(name)).expect("the file");
    let done = inject(&file);
    let (stem, kind) = name.rsplit_once('.').expect("a kind");
    let golden = directory.join(format!("{stem}.injected.{kind}.txt"));
    if std::env::var_os("LENO_GOLDEN").is_some_and(|wish| wish == "write") {
        std::fs::write(&golden, shown(&done)).expect("writes");
    }
    let golden = std::fs::read_to_string(golden).expect("LENO_GOLDEN=write writes it");
    assert_eq!(shown(&done), golden, "{name}");

    let again = inject(&done.text);
    assert_eq!(again.text, done.text, "twice is once");
    assert!(again.reports.iter().all(|report| matches!(report.said, Said::Skipped(_))));

    let back = uninject_file(&done.text);
    if done.reports.iter().all(|report| report.warnings.iter().all(|w| !w.contains("rewritten"))) {
        assert_eq!(back.text, file, "out again, byte for byte");
    }
    let values = |file: &str| -> Vec<_> {
        leno_manifest::documents(file)
            .iter()
            .map(|document| leno_manifest::read(document.text).ok())
            .collect()
    };
    assert_eq!(values(&back.text), values(&file), "out again");
    assert_eq!(uninject_file(&back.text).text, back.text);
}

#[test]
fn files() {
    check("workloads.yaml");
    check("list.yaml");
    check("pod.json");
    check("aliases.yaml");
}

#[test]
fn what_is_refused_is_as_it_was() {
    let file = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: true, containers: [{name: c}]}\n---\na: [\n---\n# nothing\n";
    let done = inject(file);
    assert_eq!(done.text, file);
    let told: Vec<String> = done.reports.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("pod \"a\" refused: it uses the node's network"), "{told:?}");
    assert!(told[1].starts_with("the document on line 6 refused: "), "{told:?}");
}

#[test]
fn a_document_beside_its_separator_can_be_written_anew() {
    let file = "--- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: &s {containers: [{name: c}]}, x: *s}\n";
    let done = inject(file);
    let objects: Vec<Value> =
        leno_manifest::read_all(&done.text).map(|(_, value)| value.expect("it is YAML")).collect();
    assert_eq!(objects.len(), 1, "{}", done.text);
    assert_eq!(objects[0]["spec"]["initContainers"][1]["name"], "leno-proxy", "{}", done.text);
}

/// What is told of each object, and the file.
fn told(done: &Done) -> Vec<String> {
    done.reports.iter().map(ToString::to_string).collect()
}

#[test]
fn lists_and_streams_as_a_cluster_answers_them() {
    let pod =
        r#"{"metadata":{"name":"NAME","namespace":"shop"},"spec":{"containers":[{"name":"c"}]}}"#;
    let pods = |names: [&str; 2]| names.map(|name| pod.replace("NAME", name)).join(",");
    let list = format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{}]}}"#, pods(["a", "b"]));
    let done = inject(&list);
    assert_eq!(told(&done), ["pod \"a\" injected", "pod \"b\" injected"]);
    assert_eq!(uninject_file(&done.text).text, list);

    let whole = |name: &str| {
        pod.replace("NAME", name).replacen('{', r#"{"apiVersion":"v1","kind":"Pod","#, 1)
    };
    let stream = format!("{}{}\n{}\n", whole("a"), whole("b"), whole("c"));
    let done = inject(&stream);
    assert_eq!(told(&done), ["pod \"a\" injected", "pod \"b\" injected", "pod \"c\" injected"]);
    let values = serde_json::Deserializer::from_str(&done.text).into_iter::<serde_json::Value>();
    assert!(
        values
            .map(|value| value.expect("JSON"))
            .all(|pod| pod["metadata"]["annotations"]["leno.dev/meshed"] == "true")
    );
    assert_eq!(uninject_file(&done.text).text, stream);

    let mut namespaces = Namespaces::new();
    leno_inject::file::add_namespaces(
        r#"{"apiVersion":"v1","kind":"NamespaceList","items":[{"metadata":{"name":"shop","labels":{"leno.dev/inject":"disabled"}}}]}"#,
        &mut namespaces,
    );
    let done = inject_file(&list, "default", &namespaces, &Mesh::default());
    assert_eq!(done.text, list, "its namespace stays outside");
}

#[test]
fn a_kind_that_nobody_knows_here_is_told_of() {
    let rollout = |kind: &str, spec: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: {kind}\nmetadata: {{name: r}}\nspec: {spec}\n"
        )
    };
    let file = rollout("Rollout", "{template: {spec: {containers: [{name: c}]}}}");
    let done = inject(&file);
    assert_eq!(done.text, file);
    assert_eq!(
        told(&done),
        [
            "rollout \"r\" skipped: its kind is unknown; to give its pods a proxy in a cluster, set the label leno.dev/inject: enabled on their template or Namespace"
        ]
    );
    assert_eq!(told(&uninject_file(&file)), ["rollout \"r\" skipped"]);
    let other = rollout("AnalysisTemplate", "{template: {}}");
    assert_eq!(told(&inject(&other)), ["analysistemplate \"r\" skipped"]);
}

/// A volume or container may be called as one of ours where nothing of ours is.
#[test]
fn what_was_never_injected_stays_as_it_is() {
    let file = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  initContainers: [{name: leno-init}]\n  containers: [{name: c, volumeMounts: [{name: leno-state, mountPath: /a}]}]\n  volumes: [{name: leno-state, emptyDir: {}}]\n";
    let done = uninject_file(file);
    assert_eq!((done.text.as_str(), told(&done)), (file, vec!["pod \"a\" skipped".to_owned()]));
    // Half of what was injected is ours still.
    let half = file.replace("{name: a}", "{name: a, annotations: {leno.dev/meshed: 'true'}}");
    let done = uninject_file(&half);
    assert_eq!(told(&done), ["pod \"a\" uninjected"]);
    assert!(!done.text.contains("leno-init"), "{}", done.text);
}

#[test]
fn a_pod_without_the_names_of_the_cluster_is_warned_of() {
    #[track_caller]
    fn check(policy: &str, control_address: &str, ip: Option<&str>, warned: bool) -> String {
        let file = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{dnsPolicy: {policy}, containers: [{{name: c}}]}}\n"
        );
        let mesh = Mesh {
            control_address: control_address.to_owned(),
            control_ip: ip.map(|ip| ip.parse().expect("an address")),
            ..Mesh::default()
        };
        let done = inject_file(&file, "default", &Namespaces::new(), &mesh);
        assert_eq!(!done.reports[0].warnings.is_empty(), warned, "{policy} {control_address}");
        let value = done.text.split(r#""LENO_PROXY_CONTROL_ADDRESS","value":""#).nth(1);
        value.and_then(|text| text.split('"').next()).expect("it is there").to_owned()
    }
    let name = "leno-control.leno.svc:8086";
    assert_eq!(check("Default", name, None, true), name);
    assert_eq!(check("None", name, None, true), name);
    assert_eq!(check("Default", "10.96.0.2:8086", None, false), "10.96.0.2:8086");
    assert_eq!(check("ClusterFirst", name, None, false), name);
    // Who knows the address of that name says it to those who cannot ask.
    assert_eq!(check("Default", name, Some("10.96.0.9"), false), "10.96.0.9:8086");
    assert_eq!(check("None", name, Some("fd00::9"), false), "[fd00::9]:8086");
    assert_eq!(check("ClusterFirst", name, Some("10.96.0.9"), false), name);
    assert_eq!(check("None", "10.96.0.2:8086", Some("10.96.0.9"), false), "10.96.0.2:8086");
}

#[test]
fn namespaces_of_the_same_files_count() {
    let files = "apiVersion: v1\nkind: Namespace\nmetadata: {name: out, labels: {leno.dev/inject: disabled}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: quiet, annotations: {config.leno.dev/access-log: 'off'}}\n";
    let pod = |namespace: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: {namespace}}}\nspec: {{containers: [{{name: c}}]}}\n"
        )
    };
    let mut namespaces = Namespaces::new();
    leno_inject::file::add_namespaces(files, &mut namespaces);
    let said = |namespace: &str| {
        let done = inject_file(&pod(namespace), "default", &namespaces, &Mesh::default());
        (done.reports[0].to_string(), done.text)
    };
    assert_eq!(said("out").0, "pod \"a\" skipped: injection is not enabled");
    let (told, text) = said("quiet");
    assert_eq!(told, "pod \"a\" injected");
    assert!(text.contains(r#"{"name":"LENO_PROXY_ACCESS_LOG","value":"off"}"#), "{text}");
    assert_eq!(
        said("kube-system").0,
        "pod \"a\" skipped: namespace kube-system is never part of the mesh"
    );
    assert_eq!(said("leno").0, "pod \"a\" skipped: namespace leno is never part of the mesh");
}

/// What was JSON is JSON to those who read nothing else, whatever was null in it.
#[test]
fn json_stays_json() {
    let json = |text: &str| {
        serde_json::from_str::<Value>(text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
    };
    for (metadata, spec) in [
        (
            r#"{"name":"a","annotations":null}"#,
            r#"{"volumes":null,"initContainers":null,"containers":[{"name":"x"}]}"#,
        ),
        ("null", r#"{"containers":[{"name":"x"}],"volumes":null}"#),
        (r#"{"annotations":null}"#, r#"{"initContainers":null,"containers":[{"name":"x"}]}"#),
        (r#"{"labels":{}}"#, r#"{"containers":[{"name":"x"}]}"#),
    ] {
        let file = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{spec},"status":null}}"#
        );
        let done = inject_file(&file, "default", &Namespaces::new(), &Mesh::default());
        assert_eq!(json(&done.text)["spec"]["initContainers"][1]["name"], "leno-proxy", "{file}");
        assert_eq!(json(&uninject_file(&done.text).text), json(&file));
    }
}

#[test]
fn a_list_of_a_whole_cluster() {
    let one = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n  spec:\n    containers:\n    - name: a\n";
    let file = format!("apiVersion: v1\nkind: List\nitems:\n{}", one.repeat(2000));
    let done = inject_file(&file, "default", &Namespaces::new(), &Mesh::default());
    assert_eq!(done.text.matches("- name: leno-proxy\n").count(), 4000, "containers and ports");
    assert!(uninject_file(&done.text).text == file);
}
