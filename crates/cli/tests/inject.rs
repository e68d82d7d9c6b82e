//! The real `leno inject` and `leno uninject`: what goes where, and how they end. What happens to a pod is tried in `crates/inject`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `leno` in a directory; answers exit code, standard output, standard error.
fn leno(directory: &Path, line: &str, input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_leno"))
        .args(line.split_whitespace())
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("leno starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that refuses its flags does not read, and may have ended already.
    match stdin.write_all(input.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => drop(stdin),
    }
    let ended = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

fn pod(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name} # here\nspec:\n{more}  containers:\n  - name: app\n    image: app:1\n"
    )
}

#[test]
fn in_and_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = pod("web", "") + "---\n" + &pod("other", "");
    let (code, injected, told) = leno(here, "inject --proxy-image localhost/p:2 -", &file);
    assert_eq!((code, told.as_str()), (Some(0), "pod \"web\" injected\npod \"other\" injected\n"));
    assert_eq!(injected.matches("image: localhost/p:2").count(), 4);
    let (code, out, told) = leno(here, "uninject -", &injected);
    assert_eq!((code, out), (Some(0), file));
    assert_eq!(told, "pod \"web\" uninjected\npod \"other\" uninjected\n");
}

#[test]
fn files_and_directories() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::create_dir_all(here.join("d/below")).unwrap();
    fs::write(here.join("d/b.yaml"), pod("b", "").trim_end()).unwrap();
    fs::write(here.join("d/a.yml"), pod("a", "").trim_end()).unwrap();
    fs::write(here.join("d/notes.txt"), "a: [").unwrap();
    fs::write(here.join("d/below/c.json"), r#"{"kind": "ConfigMap", "apiVersion": "v1"}"#).unwrap();
    let (code, out, told) = leno(here, "inject d", "");
    assert_eq!(
        (code, told.as_str()),
        (Some(0), "d/a.yml: pod \"a\" injected\nd/b.yaml: pod \"b\" injected\n")
    );
    assert_eq!(out.matches("\n---\n").count(), 1);
    let (code, _, told) = leno(here, "inject -R d", "");
    assert_eq!(code, Some(0));
    assert!(told.contains("d/below/c.json: configmap \"\" skipped"), "{told}");
    let (code, out, told) = leno(here, "inject d/below/none.yaml", "");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(told.contains("none.yaml"), "{told}");
}

#[test]
fn what_is_refused_is_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = pod("web", "") + "---\n" + &pod("node", "  hostNetwork: true\n");
    let (code, out, told) = leno(here, "inject -", &file);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(told.contains("pod \"node\" refused: it uses the node's network"), "{told}");
    let (code, out, _) = leno(here, "inject --ignore-refused -", &file);
    assert_eq!(code, Some(0));
    assert!(out.contains("leno-proxy") && out.ends_with(&pod("node", "  hostNetwork: true\n")));
    for line in ["inject --control-address nowhere -", "inject --proxy-image p -"] {
        let (code, out, told) = leno(here, line, &file);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{told}");
    }
    assert_eq!(leno(here, "inject", "").0, Some(2));
}
