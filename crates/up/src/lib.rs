//! The one-machine home: Kubernetes manifests on one machine, each pod in namespaces of its own.
//!
//! - [`manifest`]: files to objects, and what is refused. [`plan`]: objects to workloads, and the next steps; pure.
//! - [`supervisor`]: `leno up` itself, top to bottom. [`pod`]: one pod's life. [`namespace`], [`stage`]: what the kernel holds.
//! - [`service`]: endpoints and addresses, to rules ([`ruleset`]), names ([`names`]), files for the control plane ([`generated`]).
//! - [`judge`]: what is wrong with manifests as a whole. [`label`]: names. [`accepted`]: the manifests in force, for the control plane. [`journal`]: what happened, and what is wrong now.
//! - [`request`]: what the other verbs ask a running `leno up`. [`enter`]: a program of the user inside a pod. [`check`]: what the machine lacks.

#![forbid(unsafe_code)]

pub mod accepted;
pub mod address;
pub mod check;
pub mod container;
pub mod enter;
pub mod figures;
pub mod generated;
pub mod journal;
pub mod judge;
pub mod label;
pub mod logs;
pub mod manifest;
pub mod names;
pub mod namespace;
pub mod passage;
pub mod plan;
pub mod pod;
pub mod probe;
pub mod request;
pub mod ruleset;
pub mod service;
pub mod stage;
pub mod state;
pub mod supervisor;
pub mod world;
