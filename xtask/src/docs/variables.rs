//! The page of variables: those of the proxy as `leno-proxy --help` prints them, each with an example that the proxy accepts, and those of
//! `leno` and of the control plane.

use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// An example for each variable. [`page`] asks the proxy whether it accepts them.
const EXAMPLES: [(&str, &str); 54] = [
    ("LENO_PROXY_WORKLOAD", r#"{"ns":"shop","pod":"web-1"}"#),
    ("LENO_PROXY_IDENTITY", "spiffe://cluster.local/ns/shop/sa/web"),
    ("LENO_PROXY_IDENTITY_DNS", "web.shop.serviceaccount.identity.leno.cluster.local"),
    ("LENO_PROXY_CONTROL_ADDRESS", "leno-control.leno.svc:8086"),
    ("LENO_PROXY_CONTROL_IDENTITY", "spiffe://cluster.local/ns/leno/sa/leno-control"),
    ("LENO_PROXY_TRUST_ANCHORS_FILE", "/run/leno/trust-anchors.pem"),
    ("LENO_PROXY_TOKEN_FILE", "/run/leno/token"),
    ("LENO_PROXY_STATE_DIR", "/run/leno/state"),
    ("LENO_PROXY_POD_UID", "5b1c8d6e-0d9f-4a6a-9a3c-0a4f0d3c6f11"),
    ("LENO_PROXY_FAIL", "open"),
    ("LENO_PROXY_INBOUND_PORT", "4143"),
    ("LENO_PROXY_OUTBOUND_PORT", "4140"),
    ("LENO_PROXY_UID", "2102"),
    ("LENO_PROXY_SKIP_INBOUND_PORTS", "25,1000-2000"),
    ("LENO_PROXY_SKIP_OUTBOUND_PORTS", "3306"),
    ("LENO_PROXY_SKIP_SUBNETS", "10.1.0.0/16"),
    ("LENO_PROXY_WORKERS", "2"),
    ("LENO_PROXY_CONCURRENCY_LIMIT", "auto"),
    ("LENO_PROXY_INHERIT_DEADLINES", "false"),
    ("LENO_PROXY_ADMIN_PORT", "4191"),
    ("LENO_PROXY_PROBE_SOURCES", "10.0.0.1"),
    ("LENO_PROXY_LOG", "warn,leno_proxy::balance=debug"),
    ("LENO_PROXY_LOG_FORMAT", "json"),
    ("LENO_PROXY_ACCESS_LOG", "json"),
    ("LENO_PROXY_ACCESS_LOG_HEADERS", "x-request-id,x-tenant"),
    ("LENO_PROXY_ACCESS_LOG_SAMPLING_RATE", "10%"),
    ("LENO_PROXY_TRACING_COLLECTOR", "http://collector.tracing:4318"),
    ("LENO_PROXY_TRACING_SAMPLING_RATE", "5%"),
    ("LENO_PROXY_TRACING_PARENT_BASED_SAMPLING", "false"),
    ("LENO_PROXY_TRACING_SLOW_MILLISECONDS", "500"),
    ("LENO_PROXY_METRICS", "full"),
    ("LENO_PROXY_CONNECTIONS_MAX", "10000"),
    ("LENO_PROXY_HEAD_BYTES_MAX", "32768"),
    ("LENO_PROXY_HEADERS_MAX", "128"),
    ("LENO_PROXY_STREAMS_MAX", "256"),
    ("LENO_PROXY_PENDING_REQUESTS_MAX", "512"),
    ("LENO_PROXY_POOL_IDLE_MAX", "32"),
    ("LENO_PROXY_BUFFER_BYTES", "8192"),
    ("LENO_PROXY_SERIES_MAX", "1000"),
    ("LENO_PROXY_ACCESS_LOG_LINES_MAX", "2048"),
    ("LENO_PROXY_SHARED_FROM_REQUESTS", "0"),
    ("LENO_PROXY_CONNECT_MILLISECONDS", "500"),
    ("LENO_PROXY_DETECT_MILLISECONDS", "20"),
    ("LENO_PROXY_DISCOVERY_WAIT_MILLISECONDS", "1000"),
    ("LENO_PROXY_HANDSHAKE_MILLISECONDS", "5000"),
    ("LENO_PROXY_FIRST_BYTE_MILLISECONDS", "5000"),
    ("LENO_PROXY_DISCOVERY_UNUSED_SECONDS", "120"),
    ("LENO_PROXY_DRAIN_SECONDS", "60"),
    ("LENO_PROXY_POOL_IDLE_SECONDS", "30"),
    ("LENO_PROXY_APPLICATION_IDLE_SECONDS", "10"),
    ("LENO_PROXY_SERIES_IDLE_SECONDS", "300"),
    ("LENO_PROXY_SLOW_START_SECONDS", "30"),
    ("LENO_PROXY_HEAD_SECONDS", "10"),
    ("LENO_PROXY_CLIENT_IDLE_SECONDS", "600"),
];

/// Variables of the other programs: name, type, default, example, meaning.
const OTHERS: [[&str; 5]; 8] = [
    [
        "LENO_STATE_DIR",
        "path",
        "`/run/leno`",
        "/srv/mesh",
        "`leno`: the mesh on this machine, as `--state-dir`",
    ],
    [
        "KUBECONFIG",
        "path",
        "`~/.kube/config`",
        "/etc/leno/kubeconfig",
        "`leno` and `leno-control`: the cluster",
    ],
    ["NO_COLOR", "any", "unset", "1", "`leno`: no colours, unless `--color always` is given"],
    [
        "TERM",
        "text",
        "set by the terminal",
        "dumb",
        "`leno`: `dumb` has no line of progress that is written again",
    ],
    [
        "PATH",
        "paths",
        "set by the shell",
        "/usr/bin:/bin",
        "`leno up`: where programs of containers are searched",
    ],
    [
        "LENO_CONTROL_SERVICE_HOST",
        "IP address",
        "set by Kubernetes",
        "10.96.0.9",
        "`leno-control`: its own Service's address, as `--control-ip`",
    ],
    [
        "SOURCE_DATE_EPOCH",
        "number, seconds",
        "the commit's time",
        "1766000000",
        "`make release`: the time of all files",
    ],
    [
        "LENO_COMMIT",
        "text",
        "`git rev-parse`",
        "99be4bf",
        "a build: the commit that `leno version` prints",
    ],
];

/// The page. `proxy` is the program.
///
/// # Errors
/// A variable without an example, or an example that the proxy does not accept.
pub(super) fn page(variables: &[Variable<'_>], proxy: &Path) -> Result<String> {
    let mut text = String::from(
        "# Variables\n\nPrograms read these variables of the environment.\n\n## The proxy\n\n`leno-proxy` reads \
         its configuration from the environment. It reports all mistakes at once, with exit code 64. \
         [`leno up`](../cli.md#leno-up) and the injector set these variables; [annotations](annotations.md) of a pod \
         change some of them.\n\n\
         | variable | type | default | example | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for variable in variables {
        let Variable { name, meaning, .. } = variable;
        let (default, meaning) = (variable.shown_default(), cell(meaning));
        let example = example(name).with_context(|| format!("{name} has no example"))?;
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "| `{name}` | {} | {default} | `{example}` | {meaning} |", kind(name));
    }
    accepted(proxy)?;
    text.push_str("\n## The other programs\n\n| variable | type | default | example | meaning |\n| --- | --- | --- | --- | --- |\n");
    for [name, kind, default, example, meaning] in OTHERS {
        let _ =
            writeln!(text, "| `{name}` | {kind} | {default} | `{example}` | {} |", cell(meaning));
    }
    Ok(text)
}

/// A variable of the proxy as `--help` prints it.
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    default: &'a str,
    pub(super) meaning: &'a str,
}

impl Variable<'_> {
    pub(super) fn shown_default(&self) -> String {
        match self.default {
            "required" | "unset" | "empty" => self.default.to_owned(),
            value => format!("`{value}`"),
        }
    }
}

/// Entries `  NAME [default]`, each with its meaning on the next line.
pub(super) fn variables_of(help: &str) -> Vec<Variable<'_>> {
    let mut found = Vec::new();
    let mut lines = help.lines();
    while let Some(line) = lines.next() {
        let entry = line.trim().split_once(" [").filter(|(name, _)| name.starts_with("LENO_"));
        let Some((name, default)) = entry else { continue };
        let default = default.strip_suffix(']').unwrap_or(default);
        found.push(Variable { name, default, meaning: lines.next().unwrap_or_default().trim() });
    }
    found
}

/// Text inside of a table: `<` would begin HTML, `|` would end the cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn example(name: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, example)| *example)
}

/// Asks the proxy about all examples but one, whose absence is the only mistake: so the proxy does not start.
fn accepted(proxy: &Path) -> Result<()> {
    let [(missing, _), given @ ..] = &EXAMPLES;
    let output = Command::new(proxy).env_clear().envs(given.iter().copied()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_it = |line: &str| line.contains(&format!("{missing} is required"));
    ensure!(
        said.lines().count() == 1 && said.lines().all(is_it),
        "leno-proxy does not accept the examples of xtask/src/docs/variables.rs:\n{said}"
    );
    Ok(())
}

/// Units and kinds are the last words of names.
fn kind(name: &str) -> &'static str {
    const ENDS: [(&str, &str); 12] = [
        ("_MILLISECONDS", "number, milliseconds"),
        ("_SECONDS", "number, seconds"),
        ("_BYTES", "number, bytes"),
        ("BYTES_MAX", "number, bytes"),
        ("_MAX", "number"),
        ("_WORKERS", "number"),
        ("_REQUESTS", "number"),
        ("_UID", "number"),
        ("_PORT", "port"),
        ("_PORTS", "list of ports"),
        ("_FILE", "path"),
        ("_DIR", "path"),
    ];
    if name.ends_with("POD_UID") {
        return "text";
    }
    ENDS.iter().find(|(end, _)| name.ends_with(end)).map_or("text", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_type() {
        for (name, expected) in [
            ("LENO_PROXY_DRAIN_SECONDS", "number, seconds"),
            ("LENO_PROXY_HEAD_BYTES_MAX", "number, bytes"),
            ("LENO_PROXY_POD_UID", "text"),
            ("LENO_PROXY_TOKEN_FILE", "path"),
            ("LENO_PROXY_LOG", "text"),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn variables_of_a_help_text() {
        let help = "usage: x\n\n  LENO_PROXY_A_SECONDS [30]\n      how long\n  LENO_PROXY_B [a [b]]\n      what\n";
        let found: Vec<String> = variables_of(help)
            .iter()
            .map(|one| format!("{} {} {}", one.name, one.default, one.meaning))
            .collect();
        assert_eq!(found, ["LENO_PROXY_A_SECONDS 30 how long", "LENO_PROXY_B a [b] what"]);
    }
}
