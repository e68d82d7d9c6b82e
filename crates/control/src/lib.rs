//! The control plane: discovery and policy for every proxy, and certificates for identities.
//!
//! State flows one way: [`source`] (manifests → inventory) → [`world`] (pure) → [`discovery`] (one proxy's answers).
//! [`ca`] decides about certificates; [`server`] is the one mTLS listener; [`admin`] is for the operator, [`diagnostics`] what it
//! shows of proxies' answers.
//! [`replicas`] asks the other replicas for what they have.
//! [`record`] has what reached workloads, and [`suggestion`] the policy that allows it;
//! [`simulation`] says what another policy would change.
//! Not here: what a message looks like on the wire (crate `api`) and any TLS decision (crate `tls`).
#![forbid(unsafe_code)]

pub mod admin;
pub mod app;
pub mod applied;
pub mod args;
pub mod ca;
pub mod cluster;
pub mod diagnostics;
pub mod discovery;
pub mod door;
pub mod followed;
pub mod lease;
pub mod limit;
pub mod metrics;
pub mod quota;
pub mod record;
pub mod replicas;
pub mod server;
pub mod simulation;
pub mod source;
pub mod status;
pub mod suggestion;
pub mod webhook;
pub mod world;
