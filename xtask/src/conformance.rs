//! `cargo xtask conformance`: the Gateway API's own suite for meshes, on the cluster that [`crate::cluster`] finds or boots; its report goes to
//! `docs/conformance/`. `make conformance` is this.
//!
//! Suite and definitions are of one version, which `tests/conformance/go.mod` names. The server that its manifests ask for is an image whose module is
//! not published; `tests/conformance/echo` stands in for it, and speaks the same lines.

use crate::cluster;
use crate::command;
use crate::images::{self, archive::Image};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// As the suite's manifests name it.
const ECHO: &str = "registry.k8s.io/gateway-api/echo-advanced:v1.5.1";
/// Beyond the core, of what the suite knows: what routes of Leno do.
const FEATURES: &str = "Mesh,HTTPRouteResponseHeaderModification,HTTPRouteParentRefPort,HTTPRoute303RedirectStatusCode,HTTPRoute307RedirectStatusCode,\
    HTTPRoute308RedirectStatusCode,MeshConsumerRoute,MeshClusterIPMatching,MeshHTTPRouteQueryParamMatching,MeshHTTPRouteNamedRouteRule,\
    MeshHTTPRouteRewritePath,MeshHTTPRouteRedirectPath,MeshHTTPRouteRedirectPort,MeshHTTPRouteSchemeRedirect,\
    MeshHTTPRouteBackendRequestHeaderModification,GRPCRoute,HTTPRoute";
const MODULE: &str = "tests/conformance";

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
            command::step(ground.prepared(&mut suite))
        },
    )
}

/// The stand-in, under the name that the manifests ask for.
fn echo(archive: &Path) -> Result<()> {
    let program = command::target_directory()?.join("echo-advanced");
    let mut build = Command::new("go");
    build.current_dir(MODULE).envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")]);
    build.args(["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"]);
    command::step(build.arg(&program).arg("./echo"))?;
    let bytes = fs::read(&program)?;
    let image = Image {
        names: vec![ECHO.to_owned()],
        title: "echo-advanced".to_owned(),
        description: "Stands in for the server of the Gateway API's suite".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        entry_point: "/usr/local/bin/echo".to_owned(),
        user: 65532,
        // What it is called says what it does.
        files: vec![
            ("usr/local/bin/echo".to_owned(), bytes.clone()),
            ("usr/local/bin/client".to_owned(), bytes),
        ],
    };
    images::store(&image, archive)
}
