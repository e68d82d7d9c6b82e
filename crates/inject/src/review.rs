//! Admission: the bytes of an `AdmissionReview` (`admission.k8s.io/v1`) in, the bytes of the answer out.
//!
//! What is asked about is a pod that is being made. It gets a patch, stays as it is, or is refused with what to do; bytes
//! that are no review are refused as well. Whatever the bytes are, there is an answer.

use crate::inject::{Injected, Outcome, inject};
use crate::mesh::Mesh;
use crate::scope::{Marks, Wish};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leno_manifest::patch::Operation;
use serde_json::{Value, json};

/// The API server sends at most 3 MiB of object; what is larger did not come from it.
pub const REVIEW_BYTES_MAX: usize = 8 << 20;
/// The API server cuts warnings, and drops them beyond 4 KiB in all.
const WARNINGS_MAX: usize = 16;
/// A longer message is cut: it becomes an event of a ReplicaSet.
const MESSAGE_BYTES_MAX: usize = 2048;

const VERSION: &str = "admission.k8s.io/v1";

/// What became of a review, for those who count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod gets a proxy.
    Injected,
    /// The pod stays as it is.
    Untouched,
    /// The pod is not made.
    Refused,
    /// The bytes are not a review.
    Malformed,
}

/// An answer, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// An `AdmissionReview` with a response.
    pub bytes: Vec<u8>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why a pod is refused, or bytes are.
    pub message: Option<String>,
    /// The object of an Event about a pod that is left outside the mesh; `None` in a dry run.
    pub left_out: Option<LeftOut>,
}

/// A pod that is left outside the mesh although its namespace is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// `apiVersion`, kind, name and UID of what made the pod; of the pod, where nothing did.
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// Empty for a pod, which has none yet.
    pub uid: String,
    /// Why.
    pub reason: String,
}

/// Answers a review. `namespace` gives labels and annotations of the namespace that the pod is made in, as far as they are known.
#[must_use]
pub fn answer<'a>(
    review: &[u8],
    namespace: impl FnOnce(&str) -> Marks<'a>,
    mesh: &Mesh,
) -> Vec<u8> {
    respond(review, namespace, mesh).bytes
}

/// As [`answer`], with what it says.
#[must_use]
pub fn respond<'a>(
    review: &[u8],
    namespace: impl FnOnce(&str) -> Marks<'a>,
    mesh: &Mesh,
) -> Answer {
    let mut left_out = None;
    let (response, malformed) = match read(review) {
        Err(wrong) => (refused(400, &format!("leno: {wrong}")), true),
        Ok(request) => (decided(&request, namespace, mesh, &mut left_out), false),
    };
    let verdict = match (malformed, &response["allowed"], response.get("patch")) {
        (true, ..) => Verdict::Malformed,
        (_, Value::Bool(true), Some(_)) => Verdict::Injected,
        (_, Value::Bool(true), None) => Verdict::Untouched,
        _ => Verdict::Refused,
    };
    let message = response.pointer("/status/message").and_then(Value::as_str).map(str::to_owned);
    Answer { bytes: enveloped(response, review), verdict, message, left_out }
}

/// A review that cannot be decided now: whoever makes the pod tries again.
#[must_use]
pub fn unavailable(review: &[u8], why: &str) -> Answer {
    let message = format!("leno: {why}; try again");
    let bytes = enveloped(refused(503, &message), review);
    Answer { bytes, verdict: Verdict::Refused, message: Some(message), left_out: None }
}

/// The namespace that a review is about; `None` where it cannot be read, or there is none.
#[must_use]
pub fn namespace(review: &[u8]) -> Option<String> {
    let namespace = skim(review)?.namespace;
    namespace.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

fn enveloped(mut response: Value, review: &[u8]) -> Vec<u8> {
    // The request's identifier is repeated; empty where it cannot be read.
    response["uid"] = skim(review).map(|request| request.uid).unwrap_or_default().into();
    json!({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})
        .to_string()
        .into_bytes()
}

/// What is of use in bytes that may be no review otherwise.
#[derive(serde::Deserialize)]
struct Skimmed {
    uid: String,
    #[serde(default)]
    namespace: Value,
}

fn skim(review: &[u8]) -> Option<Skimmed> {
    #[derive(serde::Deserialize)]
    struct Review {
        request: Skimmed,
    }
    if review.len() > REVIEW_BYTES_MAX {
        return None;
    }
    serde_json::from_slice::<Review>(review).ok().map(|review| review.request)
}

fn read(review: &[u8]) -> Result<Value, String> {
    if review.len() > REVIEW_BYTES_MAX {
        return Err(format!("the AdmissionReview is larger than {REVIEW_BYTES_MAX} bytes"));
    }
    let mut review: Value = serde_json::from_slice(review)
        .map_err(|error| format!("the AdmissionReview is not valid: {error}"))?;
    let is = |field: &str, wanted: &str| review.get(field).and_then(Value::as_str) == Some(wanted);
    if !is("kind", "AdmissionReview") || !is("apiVersion", VERSION) {
        return Err(format!("the object is not an AdmissionReview of {VERSION}"));
    }
    match review.get_mut("request").map(Value::take) {
        Some(request) if request.is_object() => Ok(request),
        _ => Err("the AdmissionReview has no request".to_owned()),
    }
}

fn decided<'a>(
    request: &Value,
    namespace: impl FnOnce(&str) -> Marks<'a>,
    mesh: &Mesh,
    left_out: &mut Option<LeftOut>,
) -> Value {
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_pod = text("/kind/group").is_empty() && text("/kind/kind") == "Pod";
    if !is_pod || text("/operation") != "CREATE" || !text("/subResource").is_empty() {
        return json!({"allowed": true});
    }
    let name = text("/namespace");
    let namespace = crate::scope::Namespace { name, marks: namespace(name) };
    let Some(pod) = request.get("object").filter(|object| object.is_object()) else {
        return refused(400, "leno: the AdmissionReview has no object");
    };
    match inject(pod, &namespace, Wish::Disabled, mesh) {
        Outcome::Skip(_) => json!({"allowed": true}),
        Outcome::LeaveOut(reason) => {
            let warning = format!("leno: this pod is left outside the mesh: {reason}");
            let is_dry = request.get("dryRun") == Some(&Value::Bool(true));
            *left_out = (!is_dry).then(|| maker(pod, reason));
            json!({"allowed": true, "warnings": [warning]})
        }
        Outcome::Inject(Injected { patch, warnings }) => allowed(&patch, &warnings),
        Outcome::Refuse(reasons) => refused(
            403,
            &format!(
                "leno: this pod cannot be part of the mesh: {}. Correct this, or label the pod leno.dev/inject: disabled",
                reasons.join("; ")
            ),
        ),
    }
}

/// What has made a pod.
fn maker(pod: &Value, reason: String) -> LeftOut {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match owner {
        Some(owner) => LeftOut {
            api_version: text(&owner["apiVersion"]),
            kind: text(&owner["kind"]),
            name: text(&owner["name"]),
            uid: text(&owner["uid"]),
            reason,
        },
        None => LeftOut {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: text(&pod["metadata"]["name"]),
            uid: String::new(),
            reason,
        },
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
