use super::*;

#[test]
fn the_built_in_ones_are_valid_and_named_as_their_files() {
    let all = built_in().unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
    let seen: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(seen, names());
    for one in &all {
        let is_none = one.name == NONE;
        assert_eq!(one.control.is_empty(), is_none, "{}", one.name);
        assert_eq!(one.install.is_empty(), is_none, "{}", one.name);
        let has_plane = !one.containers.is_empty() || !one.daemonsets.is_empty();
        assert_eq!(has_plane, !is_none, "{}", one.name);
        assert_eq!(one.tested, ["none", "leno"].contains(&one.name.as_str()), "{}", one.name);
    }
}

#[test]
fn meshes_are_found_by_name_or_file() {
    assert_eq!(find("leno").map(|one| one.containers), Ok(vec!["leno-proxy".to_owned()]));
    let error = find("haproxy").unwrap_err();
    assert!(error.starts_with("\"haproxy\" is not a known mesh of a cluster; known: none, leno"));
    assert!(find("/nowhere/mine.yaml").unwrap_err().starts_with("/nowhere/mine.yaml: "));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, minimal("")).unwrap();
    assert_eq!(find(&file.display().to_string()).map(|one| one.name), Ok("mine".to_owned()));
}

/// The least that is a mesh, and more lines.
fn minimal(more: &str) -> String {
    format!("apiVersion: leno-bench/v1\nkind: Mesh\nmetadata: {{name: mine, title: Mine}}\n{more}")
}

#[test]
fn every_mistake_is_said_with_its_field() {
    check("", "");
    check("joins: {}", "joins: unknown field, did you mean join?");
    check("control_plane: [linkerd]", "control_plane.0: \"linkerd\" is not NAMESPACE/NAME");
    check("mutual_tls: {encrypted: [a], all: [b]}", "mutual_tls needs metrics");
    check("metrics: {port: 1}", "metrics: data_plane.containers is missing");
    check(
        "metrics: {port: 1, of: daemonsets}\ndata_plane: {containers: [a]}",
        "metrics: data_plane.daemonsets is missing",
    );
    check(
        "metrics: {port: 70000, requests: ['{a']}\ndata_plane: {containers: [a]}",
        "metrics.port: must be a whole number from 1 to 65535, not 70000; \
         metrics.requests.0: \"{a\" is not a metric with labels in braces",
    );
    check("join: {pods: {}}", "join.pods: unknown field, did you mean pod?");
    check("join: {pod: {labels: {a: 1}}}", "join.pod.labels.a: must be text, not a number");
    let upper = minimal("").replace("mine,", "Mine,");
    let mistakes = parse(Path::new("mine.yaml"), &upper).unwrap_err();
    assert!(mistakes[0].message.starts_with("must be lower-case"), "{mistakes:?}");
}

#[track_caller]
fn check(more: &str, expected: &str) {
    let said = match parse(Path::new("mine.yaml"), &minimal(more)) {
        Ok(_) => String::new(),
        Err(mistakes) => {
            let one = |mistake: &Mistake| match mistake.field.as_str() {
                "" => mistake.message.clone(),
                field => format!("{field}: {}", mistake.message),
            };
            mistakes.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    };
    assert_eq!(said, expected, "{more}");
}

#[test]
fn selectors_add_up_what_has_their_labels() {
    let scrape =
        "a{tls=\"true\",peer=\"dst\"} 3\na{tls=\"true\",peer=\"src\"} 4\na{tls=\"no\"} 5\nab 6\n";
    for (selector, expected) in [
        ("a", Some(12.0)),
        ("a{tls=\"true\"}", Some(7.0)),
        ("a{tls=\"true\",peer=\"dst\"}", Some(3.0)),
        ("ab", Some(6.0)),
        ("c", None),
    ] {
        let selector = Selector::parse(selector).unwrap();
        assert_eq!(selector.sum(scrape), expected, "{selector:?}");
    }
}
