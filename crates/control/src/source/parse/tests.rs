use super::*;

/// Objects as `kind namespace/name`, problems as `line: object: field: message`.
#[track_caller]
fn check(text: &str, objects: &[&str], problems: &[&str]) {
    let manifest = parse(&Arc::from(Path::new("m.yaml")), text);
    let shown: Vec<_> = manifest.objects.iter().map(|object| object.key.to_string()).collect();
    assert_eq!(shown, objects, "{:#?}", manifest.problems);
    let shown: Vec<_> = manifest
        .problems
        .iter()
        .map(|p| format!("{}: {}: {}: {}", p.origin, p.object, p.field, p.message))
        .collect();
    assert_eq!(shown.len(), problems.len(), "{shown:#?}");
    for (shown, expected) in shown.iter().zip(problems) {
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
    }
}

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports:
  - port: 80
";

#[test]
fn documents_are_read_one_by_one() {
    check(SERVICE, &["Service default/web"], &[]);
    check(
        &format!(
            "# a comment\n---\n{SERVICE}--- # another\nkind: Namespace\napiVersion: v1\nmetadata:\n  name: shop\n---\n"
        ),
        &["Service default/web", "Namespace shop"],
        &[],
    );
    check(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"},"spec":{"containers":[]}}"#,
        &["Pod b/a"],
        &[],
    );
    check("", &[], &[]);
    // As `leno up` reads it: `a_document_beside_its_separator_is_read` in crates/up.
    let [one, two, three, four] = ["one", "two", "three", "four"]
        .map(|name| format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
    check(
        &format!("\u{feff}{one}\n--- {two}\n---\t{three}\r\n...\r\n{four}\r\n"),
        &["Namespace one", "Namespace two", "Namespace three", "Namespace four"],
        &[],
    );
}

#[test]
fn a_mistake_names_file_line_and_field_and_stays_in_its_document() {
    check(
        &format!(
            "{SERVICE}---\napiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  ports:\n  - port: eighty\n---\n{SERVICE}"
        ),
        &["Service default/web", "Service default/web"],
        &["m.yaml:2:14: Service default/bad: spec.ports[0].port: invalid"],
    );
    check(
        &format!("{SERVICE}---\nkind: Service\n  apiVersion: [\n---\n{SERVICE}"),
        &["Service default/web", "Service default/web"],
        &["m.yaml:2:"],
    );
    check(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  rules:\n  - matches:\n    - path: {type: Prefix, value: /}\n",
        &[],
        &["m.yaml:1:7: HTTPRoute default/r: spec.rules[0].matches[0].path.type: "],
    );
}

#[test]
fn unknown_fields_are_reported_and_the_object_is_used() {
    check(
        &SERVICE.replace("  - port: 80", "  - port: 80\n    tragetPort: 8080"),
        &["Service default/web"],
        &["m.yaml:1:7: Service default/web: spec.ports[0].tragetPort: unknown field"],
    );
}

#[test]
fn what_is_not_used_or_not_an_object_is_reported() {
    check(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\n",
        &[],
        &["StatefulSet db: kind: apps/v1 StatefulSet is not used by the mesh"],
    );
    check(
        "apiVersion: v1\nkind: Service\nmetadata: {}\n",
        &[],
        &["Service: metadata.name: missing"],
    );
    check("hello: world\n", &[], &["m.yaml:1:1: document: kind: missing"]);
    check("- a\n- b\n", &[], &["m.yaml:1:1: document"]);
}

#[test]
fn lists_are_taken_apart() {
    check(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: x}]}}\n- {kind: Service}\n",
        &["Namespace a"],
        &["Service default/s: items[1].spec.ports[0].port", "List: items[2].apiVersion"],
    );
    check("apiVersion: v1\nkind: List\n", &[], &[]);
    check("apiVersion: v1\nkind: List\nitems: x\n", &[], &["m.yaml:1:3: List: items: not a list"]);
}
