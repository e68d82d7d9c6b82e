//! Programs that nobody here wrote, unmodified, direct and meshed: what they print must be the same.

mod databases;
pub(crate) mod web;

use leno_tests::compare::report;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Program;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `nobody`: the user of servers that refuse to be root.
const NOBODY: u32 = 65_534;

/// Enough for any of these programs, and a bound on a hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a conversation direct and meshed; its lines must be the same.
#[track_caller]
fn same(name: &str, plan: impl Fn() -> Plan, conversation: impl Fn(&Mesh) -> Vec<String>) {
    let direct = conversation(&plan().start(name, Meshed::No));
    let meshed = conversation(&plan().start(name, Meshed::Yes));
    assert!(!direct.is_empty(), "{name} said nothing");
    assert_eq!(direct.len(), meshed.len(), "{name}: one said more than the other");
    let differ =
        direct.iter().zip(&meshed).enumerate().filter(|(_, (direct, meshed))| direct != meshed);
    let wrong: Vec<String> = differ
        .map(|(number, (direct, meshed))| {
            let (direct, meshed) = from_difference(direct, meshed);
            format!("part {number}\n  direct {direct}\n  meshed {meshed}")
        })
        .collect();
    report(name, direct.len(), &wrong);
}

/// Both texts from a little before the first difference, and not for long.
fn from_difference(direct: &str, meshed: &str) -> (String, String) {
    let same = direct.chars().zip(meshed.chars()).take_while(|(a, b)| a == b).count();
    let show = |text: &str| {
        let shown: String = text.chars().skip(same.saturating_sub(100)).take(400).collect();
        format!("{} characters, from {}: {shown:?}", text.len(), same.saturating_sub(100))
    };
    (show(direct), show(meshed))
}

/// The output of a program in the client's pod, which must succeed.
#[track_caller]
fn client(mesh: &Mesh, program: Program) -> String {
    match program.output(&mesh.pod("client").namespace, LIMIT) {
        Ok(output) => output.text(),
        Err(error) => panic!("{error:#}"),
    }
}

/// A directory of a server's own, below the test's.
fn data_directory(mesh: &Mesh, name: &str, user: u32) -> PathBuf {
    let path = mesh.directory().join(name);
    std::fs::create_dir_all(&path).expect("make a directory");
    nix::unistd::chown(&path, Some(user.into()), Some(user.into())).expect("give it away");
    path
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn client_and_server(ports: impl IntoIterator<Item = u16>) -> Plan {
    Plan::new().pod("client").pod("server").service("server", ports, &["server"])
}

#[test]
fn curl_and_nginx() {
    web::curl();
}

#[test]
fn nghttp_and_h2load() {
    web::nghttp();
}

#[test]
fn wrk_and_nginx() {
    web::wrk();
}

/// Three pods: nginx in the middle calls a Python server through the mesh.
#[test]
fn nginx_as_a_client() {
    web::nginx_in_the_middle();
}

#[test]
fn postgresql_with_psql_and_pgbench() {
    databases::postgresql();
}

#[test]
fn redis_with_redis_benchmark() {
    databases::redis();
}

#[test]
fn mariadb_with_its_client() {
    databases::mariadb();
}
