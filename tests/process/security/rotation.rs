//! The root is replaced, in the order of the docs, under proxies that go on.

use super::{Applications, HTTP_PORT, get, plain, with_authority};
use leno_tests::authority::Authority;
use leno_tests::load::{Connections, Load};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use std::path::Path;
use std::time::Duration;

/// The proxies look every 10 s; a certificate of the root that was left out is replaced within 30 s more.
const LIMIT: Duration = Duration::from_secs(90);

/// As the kubelet: the name is a link, which is at once another.
fn swap(file: &Path, content: &str, version: &str) {
    let (new, link) = (file.with_extension(version), file.with_extension("link"));
    std::fs::write(&new, content).expect("write it");
    std::os::unix::fs::symlink(&new, &link).expect("link it");
    std::fs::rename(&link, file).expect("swap it");
}

/// Which roots the pod's proxy has.
fn roots(mesh: &Mesh, pod: &str) -> f64 {
    mesh.pod(pod).metrics().sum("identity_trust_anchors_info", &[])
}

fn certifications(mesh: &Mesh, pod: &str) -> f64 {
    mesh.pod(pod).metrics().sum("control_identity_cert_refreshes_total", &[("result", "ok")])
}

/// The control plane is started again with these files.
fn restart_control(mesh: &mut Mesh, files: &Path, anchors: &str, issuer: &Authority) {
    for (name, text) in [
        ("anchors.pem", anchors.to_owned()),
        ("issuer.pem", issuer.pem()),
        ("issuer.key", issuer.key_pem()),
    ] {
        std::fs::write(files.join(name), text).expect("write it");
    }
    drop(mesh.control_mut().take());
    mesh.start_control().expect("the control plane is back");
}

pub(super) fn replaced() {
    let (old, new) = (Authority::new("the old root"), Authority::new("the new root"));
    let plan = Plan::new().pod("client").pod("server");
    let plan = plan.service("server", [HTTP_PORT], &["server"]);
    let (plan, files) = with_authority(plan, &old);
    let mut mesh = plan.start("rotation", Meshed::Yes);
    let _applications = Applications::start(&mesh, "server", "welcome");
    let address = (mesh.service("server").addresses.v4, HTTP_PORT).into();
    let client = &mesh.pod("client").namespace;
    let kept = Load::start(client, address, 2, Connections::Kept);
    let closed = Load::start(client, address, 2, Connections::Closed);

    // Something that is no bundle, then both roots.
    let file = mesh.trust_anchors();
    swap(&file, "oops", "none");
    let said = "the new trust anchors were rejected; the previous ones stay in use";
    for pod in ["client", "server"] {
        let proxy = mesh.pod(pod).proxy().expect("a proxy");
        proxy.wait_for(said, LIMIT).expect("it is told");
    }
    let both = old.pem() + &new.pem();
    swap(&file, &both, "both");
    for pod in ["client", "server"] {
        wait::until(&format!("both roots in {pod}"), LIMIT, || {
            (roots(&mesh, pod) >= 2.0).then_some(())
        });
        let said = mesh.pod(pod).proxy().expect("a proxy").said().matches(said).count();
        assert_eq!(said, 1, "told once");
        assert!(certifications(&mesh, pod) <= 1.0, "nobody needs to be asked");
    }

    // The issuer is of the new root, and so is the control plane: proxies find it again, and pods that are made now.
    restart_control(&mut mesh, files.path(), &both, &new);
    mesh.add_pod("late").expect("a pod");
    mesh.wait_ready("late").expect("it is certified");
    mesh.set_endpoints("server", &["server", "late"]).expect("write the endpoints");
    let late = Applications::start(&mesh, "late", "welcome");
    wait::until("the new pod to serve", LIMIT, || (late.heard() > 10).then_some(()));
    let answer = plain(&mesh, "late", HTTP_PORT, &get("late"));
    assert!(answer.ends_with("welcome"), "{answer}");
    kept.stop_without_failure("a new root, connections kept");
    closed.stop_without_failure("a new root, a connection per request");

    // The old root is left out while certificates are of it, which is too early: they are replaced.
    restart_control(&mut mesh, files.path(), &new.pem(), &new);
    swap(&file, &new.pem(), "new");
    for pod in ["client", "server", "late"] {
        wait::until(&format!("the new root alone in {pod}"), LIMIT, || {
            (roots(&mesh, pod) <= 1.0).then_some(())
        });
    }
    assert!(certifications(&mesh, "client") >= 2.0 && certifications(&mesh, "server") >= 2.0);
    assert!(certifications(&mesh, "late") <= 1.0, "its certificate is of the new root");
    for _ in 0..20 {
        let answer = plain(&mesh, "client", HTTP_PORT, &get("after"));
        assert!(answer.ends_with("welcome"), "{answer}");
    }
}
