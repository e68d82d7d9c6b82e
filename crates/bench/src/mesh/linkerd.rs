//! linkerd2-proxy in the place of Leno's, joined to `leno-control`, which serves its API.
//!
//! The environment is what linkerd's injector writes into a pod, with Leno's names for the control plane; the key and certificate
//! request are what linkerd's init step makes there. Nothing supervises the proxy: the sidecar becomes it.

use super::place::Place;
use super::redirect::{INBOUND_PORT, OUTBOUND_PORT, PROXY_USER, READY_PORT};
use super::{Choice, authority, lacking, neighbours, privileges, program};
use anyhow::{Context, Result};
use leno_runtime::file::write_atomically;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Who `leno-control` is.
const CONTROL_NAME: &str = "leno-control.leno.serviceaccount.identity.leno.cluster.local";
/// Where pods and Services are: what is asked the control plane about. linkerd's default is the private ranges.
const NETWORKS: &str = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8";
/// How the proxy ends that was given no configuration: `EX_USAGE`.
const USAGE: i32 = 64;
/// Far longer than it takes to see that there is no configuration.
const CHECK_WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What is quoted of what another program said.
const QUOTED_CHARACTERS_MAX: usize = 200;

#[must_use]
pub fn find(choice: &Choice) -> Option<PathBuf> {
    program(choice, &["linkerd2-proxy"])
}

/// What is not installed.
#[must_use]
pub fn missing(choice: &Choice) -> Option<String> {
    let install = "cargo install --git https://github.com/linkerd/linkerd2-proxy --locked linkerd2-proxy, then --mesh linkerd=~/.cargo/bin/linkerd2-proxy";
    match find(choice) {
        None => Some(lacking(choice, "linkerd2-proxy", install)),
        Some(program) => version(&program).err().map(|wrong| format!("{}: {wrong}", choice.kind)),
    }
}

/// What the program says of itself. linkerd's proxy has no `--version`: without configuration it says its build and ends.
///
/// # Errors
/// It cannot be run, or does something else: it is another program.
pub fn version(program: &Path) -> Result<String, String> {
    let shown = program.display();
    let cannot = |error: std::io::Error| format!("{shown} cannot be run: {error}");
    let mut child = Command::new(program)
        .env_clear()
        .envs([("LINKERD2_PROXY_LOG", "linkerd=info"), ("LINKERD2_PROXY_LOG_FORMAT", "plain")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let until = Instant::now() + CHECK_WAIT_MAX;
    while child.try_wait().map_err(cannot)?.is_none() {
        if Instant::now() > until {
            // Nothing of it is needed, whether it is still there or has just ended.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "{shown} is not linkerd2-proxy: it continues without a configuration"
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let output = child.wait_with_output().map_err(cannot)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    build(output.status.code(), &said).ok_or_else(|| {
        format!("{shown} is not linkerd2-proxy: {}, {}", output.status, quoted(&said))
    })
}

/// `release 2.335.0 (abc1234) by linkerd on 2026-08-21T15:03:02Z`, as it is logged first. Pure.
fn build(code: Option<i32>, said: &str) -> Option<String> {
    if code != Some(USAGE) {
        return None;
    }
    let mut lines = said.lines().filter_map(|line| line.split_once("linkerd2_proxy: "));
    let (_, build) = lines.find(|(_, rest)| rest.contains(" by ") && rest.contains(" on "))?;
    Some(build.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn quoted(said: &str) -> String {
    let words: Vec<&str> = said.split_whitespace().collect();
    match words.join(" ").chars().take(QUOTED_CHARACTERS_MAX).collect::<String>() {
        nothing if nothing.is_empty() => "and it said nothing".to_owned(),
        words => format!("and it said {words:?}"),
    }
}

/// The proxy's environment. Pure.
#[must_use]
pub fn environment(
    place: &Place,
    leno: &BTreeMap<String, String>,
    anchors: &str,
    ports: &[u16],
) -> Vec<(String, String)> {
    let given = |name: &str| leno.get(name).cloned().unwrap_or_default();
    let control = given("LENO_PROXY_CONTROL_ADDRESS");
    let workload = given("LENO_PROXY_WORKLOAD");
    let context =
        serde_json::json!({"ns": place.identity.namespace, "nodeName": "leno", "pod": place.pod});
    let any = if place.ipv6 { "[::]" } else { "0.0.0.0" };
    let addresses: Vec<String> = place.addresses.iter().map(ToString::to_string).collect();
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let outbound = match place.ipv6 {
        true => format!("127.0.0.1:{OUTBOUND_PORT},[::1]:{OUTBOUND_PORT}"),
        false => format!("127.0.0.1:{OUTBOUND_PORT}"),
    };
    [
        ("CORES", place.workers.to_string()),
        ("LOG", "warn".to_owned()),
        ("LOG_FORMAT", "plain".to_owned()),
        ("SHUTDOWN_ENDPOINT_ENABLED", "false".to_owned()),
        ("SHUTDOWN_GRACE_PERIOD", "10s".to_owned()),
        ("DESTINATION_SVC_ADDR", control.clone()),
        ("DESTINATION_SVC_NAME", CONTROL_NAME.to_owned()),
        ("DESTINATION_CONTEXT", context.to_string()),
        ("DESTINATION_PROFILE_NETWORKS", NETWORKS.to_owned()),
        ("DESTINATION_PROFILE_SUFFIXES", "svc.cluster.local.".to_owned()),
        ("POLICY_SVC_ADDR", control.clone()),
        ("POLICY_SVC_NAME", CONTROL_NAME.to_owned()),
        ("POLICY_WORKLOAD", workload),
        ("POLICY_CLUSTER_NETWORKS", NETWORKS.to_owned()),
        ("INBOUND_DEFAULT_POLICY", "all-unauthenticated".to_owned()),
        ("CONTROL_LISTEN_ADDR", format!("{any}:4190")),
        ("ADMIN_LISTEN_ADDR", format!("{any}:{READY_PORT}")),
        ("OUTBOUND_LISTEN_ADDR", format!("127.0.0.1:{OUTBOUND_PORT}")),
        ("OUTBOUND_LISTEN_ADDRS", outbound),
        ("INBOUND_LISTEN_ADDR", format!("{any}:{INBOUND_PORT}")),
        ("INBOUND_IPS", addresses.join(",")),
        ("INBOUND_PORTS", ports.join(",")),
        ("INBOUND_ACCEPT_KEEPALIVE", "10000ms".to_owned()),
        ("OUTBOUND_CONNECT_KEEPALIVE", "10000ms".to_owned()),
        ("IDENTITY_DIR", place.file("identity")),
        ("IDENTITY_TRUST_ANCHORS", anchors.to_owned()),
        ("IDENTITY_TOKEN_FILE", given("LENO_PROXY_TOKEN_FILE")),
        ("IDENTITY_SVC_ADDR", control),
        ("IDENTITY_SVC_NAME", CONTROL_NAME.to_owned()),
        ("IDENTITY_LOCAL_NAME", place.identity.dns()),
    ]
    .into_iter()
    .map(|(name, value)| (format!("LINKERD2_PROXY_{name}"), value))
    .collect()
}

/// Becomes the proxy.
///
/// # Errors
/// A file cannot be read or written, or the program cannot be run.
pub fn become_proxy(
    place: &Place,
    leno: &BTreeMap<String, String>,
    program: &Path,
) -> Result<Infallible> {
    let anchors = leno.get("LENO_PROXY_TRUST_ANCHORS_FILE").map(String::as_str).unwrap_or_default();
    let anchors =
        std::fs::read_to_string(anchors).with_context(|| format!("trust anchors {anchors:?}"))?;
    let directory = place.directory.join("identity");
    std::fs::create_dir_all(&directory)?;
    let (key, request) = authority::request(&place.identity.dns())?;
    for (name, content) in [("key.p8", key), ("csr.der", request)] {
        let file = directory.join(name);
        write_atomically(&file, &content, 0o400)?;
        chown(&file, Some(PROXY_USER), Some(PROXY_USER))?;
    }
    let neighbours = neighbours::read(&place.read_generated()?, &place.addresses)?;
    let ports: Vec<u16> = neighbours.locals.iter().map(|own| own.port).collect();
    let environment = environment(place, leno, &anchors, &ports);
    privileges::drop_privileges()?;
    let error = Command::new(program)
        .env_clear()
        .envs(environment)
        .env("PATH", leno.get("PATH").map(String::as_str).unwrap_or_default())
        .env("HOSTNAME", &place.pod)
        .exec();
    Err(error).with_context(|| program.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::place;

    #[test]
    fn the_program_is_known_by_what_it_says_without_configuration() {
        let line = "[     0.000052s]  INFO ThreadId(01) linkerd2_proxy: release 2.335.0 (5b26c6c) by linkerd on 2026-08-21T15:03:02Z\n\
            [     0.000207s] ERROR ThreadId(01) linkerd_app::env: LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS must be set.\n\
            Invalid configuration: no destination service configured\n";
        let unnamed =
            "INFO linkerd2_proxy: release 0.0.0-dev (5b26c6c) by  on 2026-08-21T15:03:02Z\n";
        let check = |code: Option<i32>, said: &str, expected: Option<&str>| {
            assert_eq!(build(code, said).as_deref(), expected, "{code:?} {said}");
        };
        let release = "release 2.335.0 (5b26c6c) by linkerd on 2026-08-21T15:03:02Z";
        check(Some(64), line, Some(release));
        check(Some(64), unnamed, Some("release 0.0.0-dev (5b26c6c) by on 2026-08-21T15:03:02Z"));
        check(Some(0), line, None);
        check(None, line, None);
        check(Some(64), "usage: something else\n", None);
    }

    #[test]
    fn other_programs_are_named_with_what_they_did() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("program");
        let check = |script: &str, mode: u32, expected: &str| {
            write_atomically(&file, script.as_bytes(), mode).unwrap();
            let said = version(&file).unwrap_err().replace(&file.display().to_string(), "IT");
            assert_eq!(said, expected);
        };
        check("#!/bin/sh\nexit 0\n", 0o600, "IT cannot be run: Permission denied (os error 13)");
        check("\u{1}\u{2}", 0o700, "IT cannot be run: Exec format error (os error 8)");
        let quiet = "IT is not linkerd2-proxy: exit status: 0, and it said nothing";
        check("#!/bin/sh\nexit 0\n", 0o700, quiet);
        let usage = "IT is not linkerd2-proxy: exit status: 64, and it said \"usage: it\"";
        check("#!/bin/sh\necho usage: it >&2\nexit 64\n", 0o700, usage);
    }

    #[test]
    fn the_environment_of_an_injected_pod() {
        let leno: BTreeMap<String, String> = [
            ("LENO_PROXY_CONTROL_ADDRESS", "10.96.0.2:8086"),
            ("LENO_PROXY_WORKLOAD", r#"{"ns":"default","pod":"web-1"}"#),
            ("LENO_PROXY_TOKEN_FILE", "/pod/token"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let found = environment(&place::sample("10.244.0.3"), &leno, "PEM", &[8080, 9000]);
        let found: BTreeMap<String, String> = found.into_iter().collect();
        for (name, value) in [
            ("DESTINATION_SVC_ADDR", "10.96.0.2:8086"),
            ("IDENTITY_SVC_NAME", CONTROL_NAME),
            ("IDENTITY_LOCAL_NAME", "web.default.serviceaccount.identity.leno.cluster.local"),
            ("IDENTITY_TOKEN_FILE", "/pod/token"),
            ("IDENTITY_TRUST_ANCHORS", "PEM"),
            ("POLICY_WORKLOAD", r#"{"ns":"default","pod":"web-1"}"#),
            ("INBOUND_PORTS", "8080,9000"),
            ("INBOUND_IPS", "10.244.0.3"),
            ("INBOUND_LISTEN_ADDR", "0.0.0.0:4143"),
            ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:4140"),
            ("ADMIN_LISTEN_ADDR", "0.0.0.0:4191"),
            ("CORES", "1"),
        ] {
            assert_eq!(found[&format!("LINKERD2_PROXY_{name}")], value, "{name}");
        }
    }
}
