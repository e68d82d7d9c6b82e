use super::*;
use crate::patch::Operation;
use serde_json::json;

fn add(path: &str, value: Value) -> Operation {
    Operation::Add { path: path.into(), value }
}

/// `text` becomes `expected` in place, and removing what was added gives the text again, byte for byte.
#[track_caller]
fn check(text: &str, patch: &[Operation], expected: &str) {
    let changed = change(text, patch).unwrap();
    assert_eq!(changed.text, expected);
    assert!(!changed.rewritten);
    let undo: Vec<Operation> =
        patch.iter().map(|step| Operation::Remove { path: step.path().to_owned() }).rev().collect();
    assert_eq!(change(expected, &undo).unwrap().text, text);
}

#[test]
fn in_place() {
    let one = || json!({"name": "x", "args": ["a"]});
    check(
        "a: 1 # one\nlist: # two\n# three\n- name: b\n  c: d\n# four\n",
        &[add("/list/0", one())],
        "a: 1 # one\nlist: # two\n- name: x\n  args:\n  - a\n# three\n- name: b\n  c: d\n# four\n",
    );
    check(
        "map:\n    # c\n    z: |\n      text\n\n\nlast: 1",
        &[add("/map/a~1b", json!("true")), add("/map/e", json!([]))],
        "map:\n    a/b: \"true\"\n    e: []\n    # c\n    z: |\n      text\n\n\nlast: 1",
    );
    check(
        "items:\n- spec:\n    a: 1\n- spec:\n    a: 2\n",
        &[add("/items/1/spec/list", json!(["x"]))],
        "items:\n- spec:\n    a: 1\n- spec:\n    list:\n    - x\n    a: 2\n",
    );
    check(
        "{\"a\": {\"b\": 1}, \"c\": [1]}\n",
        &[add("/a/z", json!({"y": 2})), add("/c/0", json!(null))],
        "{\"a\": {\"z\": {\"y\":2}, \"b\": 1}, \"c\": [null, 1]}\n",
    );
    check(
        "a:\r\n  b: 1\r\n",
        &[add("/a/c", json!({"d": 1}))],
        "a:\r\n  c:\r\n    d: 1\r\n  b: 1\r\n",
    );
    check(
        "äöü: ß\nmap:\n  ü: 1\n",
        &[add("/map/x", json!("日本"))],
        "äöü: ß\nmap:\n  x: \"日本\"\n  ü: 1\n",
    );
}

#[test]
fn anew_where_it_must_be() {
    #[track_caller]
    fn check(text: &str, patch: &[Operation], expected: &str) {
        let changed = change(text, patch).unwrap();
        assert_eq!((changed.text.as_str(), changed.rewritten), (expected, true));
    }
    check(
        "z: &x\n  b: yes # note\na: *x\n",
        &[add("/a/c", json!(1))],
        "z:\n  b: yes\na:\n  b: true\n  c: 1\n",
    );
    check(
        "z: [{b: 1}]\n? a\n: {d: 'no', c: 1}\n",
        &[
            add("/x", json!(1)),
            Operation::Remove { path: "/a/c".into() },
            Operation::Remove { path: "/a/d".into() },
        ],
        "z:\n- b: 1\na: {}\nx: 1\n",
    );
}

#[test]
fn empty_values() {
    for (text, expected) in [
        ("a:\nb: 1\n", "a: [1]\nb: 1\n"),
        ("a: # c\nb: 1\n", "a: [1] # c\nb: 1\n"),
        ("b: 1\na:\n", "b: 1\na: [1]\n"),
        ("b: 1\na:", "b: 1\na: [1]"),
        ("a: []\nb: 1\n", "a: [1]\nb: 1\n"),
        ("a: ~\nb: 1\n", "a: [1]\nb: 1\n"),
        ("{\"a\":[],\"b\":1}", "{\"a\": [1],\"b\":1}"),
    ] {
        let changed = change(text, &[add("/a", json!([1]))]).unwrap();
        assert_eq!((changed.text.as_str(), changed.rewritten), (expected, false), "{text:?}");
    }
    let replace = |value| Operation::Replace { path: "/a".into(), value };
    for (text, value, expected) in [
        ("a: [1] # c\nb: 1\n", json!(null), "a: # c\nb: 1\n"),
        ("a:\n- 1\n# c\nb: 1\n", json!([]), "a: []\n# c\nb: 1\n"),
        ("{a: [1], b: 1}", json!(null), "{a: null, b: 1}"),
    ] {
        assert_eq!(change(text, &[replace(value)]).unwrap().text, expected, "{text:?}");
    }
}

/// What was JSON is JSON to those who read nothing else, whatever was null in it.
#[test]
fn json_stays_json() {
    use crate::file::{Namespaces, inject_file, uninject_file};
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
        let done = inject_file(&file, "default", &Namespaces::new(), &crate::Mesh::default());
        assert_eq!(json(&done.text)["spec"]["initContainers"][1]["name"], "leno-proxy", "{file}");
        assert_eq!(json(&uninject_file(&done.text).text), json(&file));
    }
    // Between braces alone: an empty map has no place to put a member first.
    let changed = change("{\"a\": {}, \"b\": [1]}", &[add("/a/c", json!("d"))]).unwrap();
    assert_eq!(json(&changed.text), json!({"a": {"c": "d"}, "b": [1]}));
    assert!(changed.rewritten);
}

#[test]
fn files_are_their_documents() {
    #[track_caller]
    fn check(file: &str, expected: &[(&str, &str, usize)]) {
        let found: Vec<_> =
            documents(file).iter().map(|d| (d.separator, d.text, d.first_line)).collect();
        assert_eq!(found, expected);
        let whole: String =
            found.iter().map(|(separator, text, _)| format!("{separator}{text}")).collect();
        assert_eq!(whole, file);
    }
    check("", &[("", "", 1)]);
    check("a: 1\n", &[("", "a: 1\n", 1)]);
    check("---\na: 1\n---\nb: 2", &[("---\n", "a: 1\n", 2), ("---\n", "b: 2", 4)]);
    check(
        "# c\n--- # d\na: 1\n--- {b: 2}\n",
        &[("", "# c\n", 1), ("--- # d\n", "a: 1\n", 3), ("---", " {b: 2}\n", 4)],
    );
    check("a: |\n  ---\n----\n", &[("", "a: |\n  ---\n----\n", 1)]);
    // JSON objects one after another; what is not one of them is for the reader of YAML to refuse.
    check("{\"a\": 1}\n", &[("", "{\"a\": 1}\n", 1)]);
    check("{\"a\": 1}{}", &[("", "{\"a\": 1}", 1), ("", "{}", 1)]);
    check(
        "---\n{\n\"a\": 1\n}\n\n{\"b\": 2}\n---\nc: 3\n",
        &[("---\n", "{\n\"a\": 1\n}\n\n", 2), ("", "{\"b\": 2}\n", 6), ("---\n", "c: 3\n", 8)],
    );
    check("{\"a\": 1} 2", &[("", "{\"a\": 1} 2", 1)]);
    check("{a: 1}{b: 2}", &[("", "{a: 1}{b: 2}", 1)]);
    assert!(is_blank("# c\n\n%YAML 1.2\n...\n") && !is_blank("a"));
}

#[test]
fn what_is_no_yaml_is_said() {
    assert!(change("a: [", &[]).is_err());
    assert!(change(&"[".repeat(100_000), &[]).is_err());
    assert!(change(&"- ".repeat(100_000), &[]).is_err());
    assert!(change("a: 1", &[add("/b/c", json!(1))]).is_err());
    let bomb = "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    assert!(read(bomb).is_err());
}

#[test]
fn a_list_of_a_whole_cluster() {
    use crate::file::{Namespaces, inject_file, uninject_file};
    let one = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n  spec:\n    containers:\n    - name: a\n";
    let file = format!("apiVersion: v1\nkind: List\nitems:\n{}", one.repeat(2000));
    let done = inject_file(&file, "default", &Namespaces::new(), &crate::Mesh::default());
    assert_eq!(done.text.matches("- name: leno-proxy\n").count(), 4000, "containers and ports");
    assert!(uninject_file(&done.text).text == file);
}
