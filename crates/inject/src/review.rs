//! Admission: the bytes of an `AdmissionReview` (`admission.k8s.io/v1`) in, the bytes of the answer out.
//!
//! What is asked about is a pod that is being made. It gets a patch, stays as it is, or is refused with what to do; bytes
//! that are no review are refused as well. Whatever the bytes are, there is an answer.

use crate::inject::{Injected, Outcome, inject};
use crate::mesh::Mesh;
use crate::patch::Operation;
use crate::scope::{Marks, Wish};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The API server sends at most 3 MiB of object; what is larger did not come from it.
pub const REVIEW_BYTES_MAX: usize = 8 << 20;
/// The API server cuts warnings, and drops them beyond 4 KiB in all.
const WARNINGS_MAX: usize = 16;
/// A longer message is cut: it becomes an event of a ReplicaSet.
const MESSAGE_BYTES_MAX: usize = 2048;

const VERSION: &str = "admission.k8s.io/v1";

/// Answers a review. `namespace` gives labels and annotations of the namespace that the pod is made in, as far as they are known.
#[must_use]
pub fn answer<'a>(
    review: &[u8],
    namespace: impl FnOnce(&str) -> Marks<'a>,
    mesh: &Mesh,
) -> Vec<u8> {
    let response = match read(review) {
        Err(wrong) => refused(400, &format!("leno: {wrong}")),
        Ok(request) => decided(&request, namespace, mesh),
    };
    let mut response = response;
    response["uid"] = uid(review).into();
    json!({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})
        .to_string()
        .into_bytes()
}

/// The request's identifier, which the answer repeats; empty where it cannot be read.
fn uid(review: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Review {
        request: Request,
    }
    #[derive(serde::Deserialize)]
    struct Request {
        uid: String,
    }
    if review.len() > REVIEW_BYTES_MAX {
        return String::new();
    }
    serde_json::from_slice::<Review>(review).map(|review| review.request.uid).unwrap_or_default()
}

fn read(review: &[u8]) -> Result<Value, String> {
    if review.len() > REVIEW_BYTES_MAX {
        return Err(format!("a review of more than {REVIEW_BYTES_MAX} bytes"));
    }
    let mut review: Value =
        serde_json::from_slice(review).map_err(|error| format!("no review: {error}"))?;
    let is = |field: &str, wanted: &str| review.get(field).and_then(Value::as_str) == Some(wanted);
    if !is("kind", "AdmissionReview") || !is("apiVersion", VERSION) {
        return Err(format!("no AdmissionReview of {VERSION}"));
    }
    match review.get_mut("request").map(Value::take) {
        Some(request) if request.is_object() => Ok(request),
        _ => Err("a review without request".to_owned()),
    }
}

fn decided<'a>(request: &Value, namespace: impl FnOnce(&str) -> Marks<'a>, mesh: &Mesh) -> Value {
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_pod = text("/kind/group").is_empty() && text("/kind/kind") == "Pod";
    if !is_pod || text("/operation") != "CREATE" || !text("/subResource").is_empty() {
        return json!({"allowed": true});
    }
    let name = text("/namespace");
    let namespace = crate::scope::Namespace { name, marks: namespace(name) };
    let Some(pod) = request.get("object").filter(|object| object.is_object()) else {
        return refused(400, "leno: a review without object");
    };
    match inject(pod, &namespace, Wish::Disabled, mesh) {
        Outcome::Skip(_) => json!({"allowed": true}),
        Outcome::Inject(Injected { patch, warnings }) => allowed(&patch, &warnings),
        Outcome::Refuse(reasons) => refused(
            403,
            &format!(
                "leno: this pod cannot be part of the mesh: {}. Correct that, or label the pod leno.dev/inject: disabled",
                reasons.join("; ")
            ),
        ),
    }
}

fn allowed(patch: &[Operation], warnings: &[String]) -> Value {
    let steps = serde_json::to_vec(patch).unwrap_or_default();
    let mut response =
        json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(steps)});
    if !warnings.is_empty() {
        let warnings: Vec<String> =
            warnings.iter().take(WARNINGS_MAX).map(|warning| format!("leno: {warning}")).collect();
        response["warnings"] = warnings.into();
    }
    response
}

fn refused(code: u16, message: &str) -> Value {
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    json!({"allowed": false, "status": {"code": code, "message": &message[..end]}})
}
