//! What is added to a pod, read in the types that Kubernetes publishes: no field that it does not know, nothing lost.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use leno_inject::file::{Namespaces, inject_file};
use leno_inject::{Mesh, workload};
use leno_manifest::typed::{self, Typed};

#[test]
fn every_field_is_known_to_kubernetes() {
    let file = include_str!("golden/workloads.yaml");
    let done = inject_file(file, "default", &Namespaces::new(), &Mesh::default());
    let mut seen = 0;
    for document in leno_manifest::documents(&done.text) {
        let object = leno_manifest::read(document.text).unwrap();
        for place in workload::places(&object) {
            let Some(pod) = place.pointer.and_then(|at| object.pointer(&at)) else { continue };
            let Typed { object, unknown } = typed::read::<PodTemplateSpec>(pod);
            let unknown: Vec<String> = unknown
                .into_iter()
                .filter(|field| field != "apiVersion" && field != "kind")
                .collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", place.shown);
            let spec = object.unwrap().spec.unwrap();
            let written = serde_json::to_value(&spec).unwrap();
            let Some([init, proxy, ..]) = spec.init_containers.as_deref() else { continue };
            if proxy.name != "leno-proxy" {
                continue;
            }
            assert_eq!(written["initContainers"][0], pod["spec"]["initContainers"][0]);
            assert_eq!(written["initContainers"][1], pod["spec"]["initContainers"][1]);
            assert_eq!(written["volumes"][0], pod["spec"]["volumes"][0]);
            check_limits(init);
            check_limits(proxy);
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}

/// What the API server checks and the types do not say.
fn check_limits(container: &k8s_openapi::api::core::v1::Container) {
    for port in container.ports.iter().flatten() {
        let name = port.name.as_deref().unwrap_or_default();
        assert!((1..=15).contains(&name.len()), "{name}: a port's name has 15 characters");
    }
    for probe in [&container.startup_probe, &container.readiness_probe, &container.liveness_probe] {
        let Some(probe) = probe else { continue };
        assert!(probe.period_seconds >= Some(1) && probe.failure_threshold >= Some(1));
    }
    let names: Vec<&str> = container.env.iter().flatten().map(|one| one.name.as_str()).collect();
    let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(once.len(), names.len(), "{names:?}");
    // `$(NAME)` is written out only where NAME comes before.
    for (at, one) in container.env.iter().flatten().enumerate() {
        let value = one.value.as_deref().unwrap_or_default();
        for reference in value.split("$(").skip(1) {
            let name = reference.split(')').next().unwrap_or_default();
            assert!(names[..at].contains(&name), "{}: {name} comes later", one.name);
        }
    }
}
