//! `cargo xtask conformance`: the Gateway API's own suite for meshes, on the cluster that [`crate::cluster`] finds or boots; its report goes to
//! `docs/conformance/`. `make conformance` is this.
//!
//! Suite and definitions are of one version, which `tests/conformance/go.mod` names. The image that its manifests ask for holds Istio's echo server and
//! client, of which `tests/conformance/echo/go.mod` names the version.

use crate::cluster;
use crate::command;
use crate::images::{self, archive::Image};
use anyhow::{Context as _, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// As the suite's manifests name it.
const ECHO: &str = "registry.k8s.io/gateway-api/echo-advanced:v1.5.1";
/// Beyond the core, of what the suite knows: what routes of Leno do.
const FEATURES: &str = "Mesh,HTTPRouteResponseHeaderModification,HTTPRouteParentRefPort,HTTPRoute303RedirectStatusCode,HTTPRoute307RedirectStatusCode,\
    HTTPRoute308RedirectStatusCode,MeshConsumerRoute,MeshClusterIPMatching,MeshHTTPRouteQueryParamMatching,MeshHTTPRouteNamedRouteRule,\
    MeshHTTPRouteRedirectPath,MeshHTTPRouteRedirectPort,MeshHTTPRouteSchemeRedirect,MeshHTTPRouteRewritePath,\
    MeshHTTPRouteBackendRequestHeaderModification,GRPCRoute,HTTPRoute";
const MODULE: &str = "tests/conformance";
const ECHO_MODULE: &str = "tests/conformance/echo";
const CERTIFY: &str = "src/crypto/tls/generate_cert.go";
const ECHO_COMMANDS: &str = "istio.io/istio/pkg/test/echo/cmd";

/// Runs the suite; words are further flags of it.
///
/// # Errors
/// When a test of the suite fails. The report is written all the same.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    cluster::on_a_cluster(
        |archives| echo(&archives.join("echo-advanced.tar")),
        |ground| {
            let project = std::env::current_dir()?;
            let report = project.join("docs/conformance/mesh.yaml");
            fs::create_dir_all(report.parent().context("a directory")?)?;
            let mut suite = Command::new("go");
            suite.current_dir(MODULE).env("GOTOOLCHAIN", "local");
            suite.args(["test", "-count=1", "-timeout=40m", "-v", "-run=TestConformance", "."]);
            suite.args(["-args", "--conformance-profiles=MESH-HTTP,MESH-GRPC"]);
            suite.arg(format!("--supported-features={FEATURES}"));
            suite.args(["--namespace-labels=leno.dev/inject=enabled", "--mesh-name=leno"]);
            suite.args(["--organization=leno", "--project=leno", "--contact=none"]);
            suite.arg(format!("--version={}", env!("CARGO_PKG_VERSION")));
            suite.arg("--url=https://leno.dev");
            suite.arg(format!("--report-output={}", report.display())).args(words);
            let passed = command::step(ground.prepared(&mut suite));
            // The suite does not wait for its namespaces, and pods with proxies are not left without a mesh.
            let gone = ["delete", "namespace", "-l", "gateway-conformance", "--timeout=180s"];
            let gone = command::step(&mut ground.kubectl(&gone));
            // It is written for its owner alone.
            fs::set_permissions(&report, Permissions::from_mode(0o644))?;
            passed.and(gone)
        },
    )
}

/// Istio's server and client with a certificate, under the name that the manifests ask for.
fn echo(archive: &Path) -> Result<()> {
    let out = command::target_directory()?.join("echo-advanced");
    fs::create_dir_all(&out)?;
    let mut build = Command::new("go");
    build.current_dir(ECHO_MODULE).envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")]);
    build.args(["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"]).arg(&out);
    command::step(
        build.args(["server", "client"].map(|program| format!("{ECHO_COMMANDS}/{program}"))),
    )?;
    // Go brings a program that makes certificates, which needs no module.
    let root = command::output(Command::new("go").args(["env", "GOROOT"]))?;
    let mut certify = Command::new("go");
    certify.current_dir(&out).arg("run").arg(Path::new(root.trim()).join(CERTIFY));
    command::step(certify.args(["--host=echo", "--ecdsa-curve=P256"]))?;
    let image = Image {
        names: vec![ECHO.to_owned()],
        title: "echo-advanced".to_owned(),
        description: "Server and client of the Gateway API's suite".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        entry_point: "/usr/local/bin/server".to_owned(),
        user: 1338,
        files: vec![
            ("usr/local/bin/server".to_owned(), fs::read(out.join("server"))?),
            ("usr/local/bin/client".to_owned(), fs::read(out.join("client"))?),
            ("cert.crt".to_owned(), fs::read(out.join("cert.pem"))?),
            ("cert.key".to_owned(), fs::read(out.join("key.pem"))?),
        ],
    };
    images::store(&image, archive)
}
