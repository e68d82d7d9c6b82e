use super::*;
use crate::patch::Operation;
use serde_json::{Value, json};

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

#[test]
fn json_stays_json() {
    // Between braces alone: an empty map has no place to put a member first.
    let changed = change("{\"a\": {}, \"b\": [1]}", &[add("/a/c", json!("d"))]).unwrap();
    let value: Value = serde_json::from_str(&changed.text).unwrap();
    assert_eq!(value, json!({"a": {"c": "d"}, "b": [1]}));
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
        &[("", "# c\n", 1), ("--- # d\n", "a: 1\n", 3), ("--- ", "{b: 2}\n", 4)],
    );
    check("---\t# c\r\na: 1\r\n---\r\n", &[("---\t# c\r\n", "a: 1\r\n", 2), ("---\r\n", "", 4)]);
    check("---\t{a: 1}\n---\n", &[("---\t", "{a: 1}\n", 1), ("---\n", "", 3)]);
    check("--- |\n  a\n---", &[("--- ", "|\n  a\n", 1), ("---", "", 4)]);
    // What ends a document, and directives before the next.
    check("a: 1\n...\n", &[("", "a: 1\n...\n", 1)]);
    check("a: 1\n... # c\nb: 2\n", &[("", "a: 1\n... # c\n", 1), ("", "b: 2\n", 3)]);
    check(
        "a: 1\n...\n%YAML 1.2\n---\nb: 2\n",
        &[("", "a: 1\n...\n", 1), ("", "%YAML 1.2\n", 3), ("---\n", "b: 2\n", 5)],
    );
    check("a: |\n  ...\n....\n", &[("", "a: |\n  ...\n....\n", 1)]);
    // A byte order mark.
    check("\u{feff}a: 1\n", &[("\u{feff}", "a: 1\n", 1)]);
    check("\u{feff}---\na: 1\n---\nb: 2", &[("\u{feff}---\n", "a: 1\n", 2), ("---\n", "b: 2", 4)]);
    check("\u{feff}{}{}", &[("\u{feff}", "{}", 1), ("", "{}", 1)]);
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
fn values_and_mistakes_of_a_file() {
    #[track_caller]
    fn check(file: &str, expected: &[&str]) {
        let seen: Vec<String> = read_all(file)
            .map(|(document, value)| match value {
                Ok(value) => format!("{} {value}", document.first_line),
                Err(wrong) => format!("{} {wrong}", document.first_line),
            })
            .collect();
        assert_eq!(seen, expected, "{file:?}");
    }
    check("", &[]);
    check("# c\n---\n---\n...\n", &[]);
    check("a: 1\n--- {b: 2}\n---\t{c: 3}\n", &["1 {\"a\":1}", "2 {\"b\":2}", "3 {\"c\":3}"]);
    check("\u{feff}a: 1\r\n...\r\nb: 2\r\n", &["1 {\"a\":1}", "3 {\"b\":2}"]);
    check("{\"a\": 1}\n{\"b\": 2}\n", &["1 {\"a\":1}", "2 {\"b\":2}"]);
    check("%YAML 1.2\n---\na: yes\n", &["3 {\"a\":true}"]);
    check(
        "---\na: 1\na: 2\n---\nb: 2\n",
        &["2 the field appears twice: a (line 2 of the document)", "5 {\"b\":2}"],
    );
}

#[test]
fn a_field_has_its_line_in_the_file() {
    let file = "a: 1\n--- {b: 2}\n---\nc:\n  d: 3\n";
    let lines: Vec<usize> = documents(file)
        .iter()
        .zip(["a", "b", "c.d"])
        .map(|(document, field)| document.line_of(field))
        .collect();
    assert_eq!(lines, [1, 2, 5]);
}

#[test]
fn each_mistake_has_its_place_once() {
    let check = |text: &str, line: usize, column: usize, message: &str| {
        let message = message.to_owned();
        assert_eq!(read(text), Err(Unreadable { line, column, message }), "{text}");
    };
    check("a: 1\nb: [1, 2\nc: 3\n", 3, 2, "illegal placement of ':' indicator");
    check("a: {b: 1, b: 2}\n", 1, 11, "the field appears twice: b");
    check("a: 1\n---\nb: 2\n", 3, 1, "a second document begins here; a file has one");
    check("a: *b\n", 1, 4, "alias references unknown anchor");
    check("a:\n\tb: 1\n", 2, 2, "tabs disallowed within this context (block indentation)");
}
