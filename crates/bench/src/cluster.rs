//! A Kubernetes cluster as the home of a benchmark: the same manifests, in namespaces of their own, under a mesh that is declared in a file.
//!
//! - [`declaration`]: what a mesh is, as a file says it; the built-in ones are in `meshes/`. [`placement`]: which nodes have what.
//! - [`objects`]: a scenario's manifests as this cluster runs them. These are pure.
//! - [`home`]: a cluster for a whole campaign. [`api`]: the API server. [`bed`]: a running topology. [`kubelet`]: what containers use. [`proof`]: whether the mesh encrypts.
//!   [`doctor`]: whether a cluster is fit.
//!
//! Not here: load, plan and judgement, which both homes share ([`crate::run`]); one machine, which is [`crate::mesh`].

pub mod api;
pub mod bed;
pub mod declaration;
pub mod doctor;
pub mod home;
pub mod kubelet;
pub mod objects;
pub mod placement;
pub mod proof;

pub use bed::Bed;
pub use home::{Home, Request};
