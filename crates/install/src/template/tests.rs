//! The table is the specification of the engine; `cargo xtask chart` holds it against Helm's on the chart itself.

use super::*;
use serde_json::json;

#[track_caller]
fn check(template: &str, expected: &str) {
    let root = json!({
        "Values": {
            "name": "leno", "empty": "", "count": 3, "big": 1_000_000, "yes": true, "no": false,
            "list": ["a", "b"], "map": {"b": "2", "a": 1}, "none": null, "text": "a\nb\n",
            "nested": {"x": {"y": "z"}}, "half": 0.5, "whole": 2.0, "least": 0.00001, "most": 1e6,
        },
        "Release": {"Namespace": "leno"},
    });
    let files = Files::from([("f.json".to_owned(), "{}\n".to_owned())]);
    let rendered = Template::read("t", template).and_then(|read| read.render(&root, &files));
    let shown = rendered.unwrap_or_else(|error| error.to_string());
    assert_eq!(shown, expected, "{template}");
}

#[test]
fn what_is_rendered() {
    check("a", "a");
    check("{{ .Values.name }}-{{.Values.count}}", "leno-3");
    check("a  {{- .Values.name -}}  b", "alenob");
    check("{{ .Values.half }} {{ .Values.whole }}", "0.5 2");
    check("{{ .Values.name | replace \"l\" .Values.empty | quote }}", "\"eno\"");
    check("a {{/* {{ not }} this */}} b{{- /* nor this */ -}} c", "a  bc");
    check("{{ if .Values.yes }}y{{ else }}n{{ end }}", "y");
    check("{{ if .Values.no }}a{{ else if .Values.yes }}b{{ else }}c{{ end }}", "b");
    check("{{ if .Values.no }}a{{ else if .Values.none }}b{{ else }}c{{ end }}", "c");
    check("{{ if and .Values.yes (not .Values.no) }}y{{ end }}", "y");
    check("{{ if or .Values.empty .Values.no }}y{{ end }}", "");
    check("{{ if eq .Values.name \"leno\" }}y{{ end }}", "y");
    check("{{ if ne .Values.name \"}}\" }}y{{ end }}", "y");
    check(
        "{{ with .Values.nested }}{{ .x.y }}{{ $.Values.name }}{{ end }}{{ .Values.name }}",
        "zlenoleno",
    );
    check("{{ with .Values.empty }}a{{ else }}b{{ end }}", "b");
    check("{{ range .Values.list }}<{{ . }}>{{ end }}", "<a><b>");
    check("{{ range $k, $v := .Values.map }}{{ $k }}={{ $v }};{{ end }}", "a=1;b=2;");
    check("{{ range $k, $v := .Values.none }}x{{ else }}none{{ end }}", "none");
    check("{{ .Values.name | quote }}", "\"leno\"");
    check("{{ .Values.empty | default .Values.name }}", "leno");
    check("{{ .Values.none | default \"x\" }}", "x");
    check("{{ .Values.name | b64enc }}", "bGVubw==");
    check("a:{{ .Values.text | trim | nindent 2 }}", "a:\n  a\n  b");
    check("{{ indent 1 .Values.name }}", " leno");
    check("a:{{ .Values.map | toYaml | nindent 2 }}", "a:\n  a: 1\n  b: \"2\"");
    check("{{ toJson .Values.text }}", "\"a\\nb\\n\"");
    check("{{ toJson .Values.big }}", "1000000");
    check("{{ .Files.Get \"f.json\" | trim }}", "{}");
    check("{{ $.Files.Get \"f.json\" | trim }}", "{}");
    check("{{ required \"say it\" .Values.name }}", "leno");
}

#[test]
fn what_is_refused() {
    check("a\n{{ .Values.none }}", "t:2: the value to print is missing");
    check("{{ .Values.other }}", "t:1: the value to print is missing");
    check("{{ .Values.name.x }}", "t:1: .Values.name is \"leno\", so it has no x");
    check("{{ .Values.list }}", "t:1: a list or a map cannot be printed; use toYaml");
    check("{{ .Values.big }}", "t:1: Helm would print 1000000 in another form; use toJson");
    for (name, number) in [("least", "0.00001"), ("most", "1000000.0")] {
        let expected = format!("t:1: Helm would print {number} in another form; use toJson");
        check(&format!("{{{{ .Values.{name} }}}}"), &expected);
    }
    check("{{ required \"say it\" .Values.empty }}", "t:1: say it");
    check("{{ include \"x\" . }}", "t:1: \"include\" is not supported here");
    check("{{ define \"x\" }}{{ end }}", "t:1: \"define\" is not supported here");
    check("{{ $x := 1 }}", "t:1: Declare is unexpected");
    check("{{ if .Values.yes }}", "t:1: its end is missing");
    check("{{ end }}", "t:0: an end without if, with or range");
    check("{{ .Values.name", "t:1: {{ without its }}");
    check("{{ }}", "t:1: a value is missing");
    check("{{ .Values.name .Values.name }}", "t:1: two values without a function");
    check("{{ .Values.name | .Values.name }}", "t:1: a function must follow |");
    check(
        "{{ eq .Values.count \"3\" }}",
        "t:1: 3 and \"3\" cannot be compared; compare two strings or two booleans",
    );
    check("{{ (.Values.nested).x }}", "t:1: \")\" is not valid here");
    check("{{ $other }}", "t:1: $other is not declared");
    check("{{ .Files.Get \"x\" }}", "t:1: the chart has no file x");
    check("{{ 'x' }}", "t:1: '\\'' is not valid here");
    check("{{ quote 1 2 }}", "t:1: quote cannot be used with (1, 2)");
}
