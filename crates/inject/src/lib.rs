//! How a pod gets its proxy, as pure functions: no I/O, no clock, no cluster.
//!
//! - [`scope`]: who is part of the mesh, and what cannot be.
//! - [`annotation`]: the vocabulary by which a pod configures its proxy; the one-machine home reads it here as well.
//! - [`names`]: the names, ports and user of what is added.
//! - [`pod`]: what is added to a pod; [`mod@inject`] makes the patch of it, [`mod@uninject`] takes it out again.
//! - [`workload`]: where the pods are in objects of every kind.
//! - [`review`]: admission, bytes in and bytes out. The server that speaks HTTPS with the API server is `leno-control`'s.
//! - [`file`]: the same on files of manifests, which crate `leno-manifest` reads and edits.
#![forbid(unsafe_code)]

pub mod annotation;
pub mod file;
pub mod inject;
pub mod mesh;
pub mod names;
pub mod pod;
pub mod review;
pub mod scope;
pub mod uninject;
pub mod workload;

pub use inject::{Injected, Outcome, inject};
pub use mesh::{HostNetwork, Mesh};
pub use uninject::uninject;

use serde_json::Value;

/// Whether a value is absent in any of its forms: null, an empty list or an empty object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
