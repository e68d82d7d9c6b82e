//! Circles of small crates, and what the list of standing ones allows.

use super::{Circle, Standing, of};
use std::fs;

/// Writes files, each as `name: text` and separated by bars, and compares the circles below `lib.rs`.
#[track_caller]
fn check(files: &str, expected: &str) {
    let place = tempfile::tempdir().unwrap();
    for file in files.split(" | ") {
        let (name, text) = file.split_once(": ").unwrap();
        let path = place.path().join(format!("{name}.rs"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = of(&place.path().join("lib.rs")).unwrap();
    let prefix = format!("{}/", place.path().display());
    let short = |file: &String| file.trim_start_matches(&prefix).trim_end_matches(".rs").to_owned();
    let shown = |circle: &Circle| circle.files.iter().map(short).collect::<Vec<_>>().join(" ");
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>().join(", "), expected, "{files}");
}

#[test]
fn circles_are_found() {
    check(
        "lib: mod a; mod b; | a: use crate::b::B; struct A; | b: use super::a::A; struct B;",
        "a b",
    );
    check(
        "lib: mod a; mod b; | a: fn f() { crate::b::g() } | b: use crate::a; fn g() { a::f() }",
        "a b",
    );
    check(
        "lib: mod a; mod b; mod c; | a: use crate::b::B; type A = (); \
         | b: use crate::c::{C as D}; type B = (); | c: use crate::{a::{self, A}}; type C = ();",
        "a b c",
    );
    check(
        "lib: mod a; | a/mod: mod x; mod y; | a/x: use super::y::Y; struct X; | a/y: use super::x::X; struct Y;",
        "a/x a/y",
    );
    check(
        "lib: mod a; mod b; | a: use crate::b::c::B; struct A; \
         | b: mod c { use super::super::a::A; pub struct B; }",
        "a b",
    );
}

#[test]
fn a_re_export_is_the_file_of_its_item() {
    check(
        "lib: mod a; mod b; | a: mod x; pub use x::X; use crate::b::B; | a/x: struct X; \
         | b: use crate::a::X; struct B;",
        "",
    );
    check(
        "lib: mod a; mod b; | a: mod x; pub use x::*; | a/x: use crate::b::B; struct X; \
         | b: use crate::a::X; struct B;",
        "a/x b",
    );
    // A name that is its own import ends somewhere, too.
    check(
        "lib: mod a; mod b; | a: use crate::b::B; use serde::serde; struct A; \
         | b: use a::a; use super::a::A; struct B;",
        "a b",
    );
}

#[test]
fn what_is_not_a_circle() {
    check("lib: mod a; mod b; | a: use crate::b::B; | b: struct B;", "");
    // A part uses its whole.
    check(
        "lib: mod a; use a::A; struct B; | a: mod x; use x::X; struct A; use crate::B; \
         | a/x: use super::A; struct X;",
        "",
    );
    check(
        "lib: mod a; mod b; | a: use crate::b::B; struct A; \
         | b: struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        "",
    );
    check(
        "lib: mod a; mod b; | a: use crate::b::B; struct A; \
         | b: struct B; /* crate::a::A */ const C: &str = \"crate::a::A\";",
        "",
    );
    // Another crate of the same name.
    check("lib: mod a; mod b; | a: use crate::b::B; struct A; | b: use ::a::A; struct B;", "");
}

#[test]
fn an_entry_allows_its_circle_and_no_more() {
    let circle = |files: &str| Circle {
        files: files.split(' ').map(str::to_owned).collect(),
        uses: Vec::new(),
    };
    let unneeded =
        |file: &str| format!("xtask/circles.toml: {file} is in no circle any more; remove it");
    for (entry, found, expected) in [
        ("'a', 'b'", &["a b"][..], vec![]),
        ("'a', 'b', 'c'", &["a b"], vec![unneeded("c")]),
        ("'a', 'b', 'c', 'd'", &["a b", "c d"], vec![]),
        (
            "'a', 'b'",
            &["a b c"],
            vec!["import circle of 3 files:".to_owned(), unneeded("a"), unneeded("b")],
        ),
    ] {
        let text = format!("[[circle]]\nfiles = [{entry}]\nreason = 'it is opened with b'");
        let found: Vec<Circle> = found.iter().map(|files| circle(files)).collect();
        let mut wrong = Vec::new();
        Standing::parse(&text).unwrap().compare(&found, &mut wrong);
        assert_eq!(wrong, expected, "{entry}");
    }
    let mut wrong = Vec::new();
    let entry = "[[circle]]\nfiles = ['a', 'b']\nreason = 'so'";
    Standing::parse(entry).unwrap().compare(&[circle("a b")], &mut wrong);
    assert_eq!(wrong, ["xtask/circles.toml: the circle of a needs a reason"]);
}

#[test]
fn a_circle_says_what_ties_it() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b;");
    write("a.rs", "use crate::b::{B, C}; struct A;");
    write("b.rs", "struct B; struct C; fn f() { crate::a::A }");
    let circle = of(&place.path().join("lib.rs")).unwrap().remove(0);
    let names: Vec<_> = circle.uses.iter().map(|(_, _, names)| names.join(" ")).collect();
    assert_eq!(names, ["B C", "A"]);
}
