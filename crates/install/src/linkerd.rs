//! linkerd's own injector beside ours. Both would inject a pod that says `linkerd.io/inject`: ours comes first, linkerd's knows no other
//! sidecar than linkerd's and Istio's, and of two proxies in a pod the second cannot listen.

use serde_json::Value;

/// Where linkerd's chart has the configuration of its webhook.
pub const NAMED: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/linkerd-proxy-injector-webhook-config";
/// By its label, a list: whatever it is called.
pub const LABELLED: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?labelSelector=linkerd.io%2Fcontrol-plane-component%3Dproxy-injector";

/// The name of its configuration, of what a cluster has at [`NAMED`] and in [`LABELLED`].
#[must_use]
pub fn injector<'a>(named: Option<&'a Value>, labelled: &'a [Value]) -> Option<&'a str> {
    let first = named.into_iter().chain(labelled).next()?;
    Some(first["metadata"]["name"].as_str().unwrap_or("linkerd-proxy-injector-webhook-config"))
}

/// What is wrong with it.
#[must_use]
pub fn seen(name: &str) -> String {
    format!(
        "linkerd's injector is in this cluster (MutatingWebhookConfiguration {name}). Both meshes would inject pods with the annotation linkerd.io/inject, on the pod or on its namespace"
    )
}

/// What to do, with the command to which the value is given.
#[must_use]
pub fn hint(command: &str) -> String {
    format!(
        "remove linkerd's injector first; or run {command} --set injector.linkerdAnnotations=false | kubectl apply -f -, so that each mesh injects its own pods (to move a workload, set the label leno.dev/inject=enabled and the annotation linkerd.io/inject=disabled on its template)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn which_injector_is_there() {
        let check = |named: Option<Value>, labelled: &[Value], expected: Option<&str>| {
            assert_eq!(injector(named.as_ref(), labelled), expected, "{named:?} {labelled:?}");
        };
        let usual = "linkerd-proxy-injector-webhook-config";
        let of = |name: &str| json!({"metadata": {"name": name}});
        check(None, &[], None);
        check(Some(of(usual)), &[], Some(usual));
        check(Some(of(usual)), &[of(usual)], Some(usual));
        check(None, &[of("edge-injector")], Some("edge-injector"));
        check(Some(json!({})), &[], Some(usual));
    }
}
