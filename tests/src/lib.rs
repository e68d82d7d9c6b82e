//! Whole-mesh tests: real binaries and real programs in network namespaces of their own.
//!
//! What is here is the ground the tests in `process/` stand on, and knows nothing of `leno up`:
//!
//! - [`mesh`]: a node, pods and services, with or without the mesh. Start reading there.
//! - [`network`], [`namespace`]: namespaces, addresses and routes, gone when the test is.
//! - [`program`]: a program inside a pod: its output, its signals, its end.
//! - [`manifest`]: the Kubernetes objects that tell the control plane of it all.
//! - [`script`], [`exchange`]: HTTP/1 and TCP as byte scripts on both sides, and what each side saw.
//! - [`events`]: the same comparison for what is not a byte script (HTTP/2, gRPC).
//! - [`compare`]: direct beside meshed, and the short list of differences that are allowed.
//! - [`listen`]: a server that serves each connection on a thread of its own.
//! - [`load`]: steady GETs, each counted.
//! - [`admin`]: a proxy's admin address: readiness and metrics.
//! - [`authority`], [`sniff`], [`proc`]: certificates, captured packets, memory.
//!
//! Everything a test makes belongs to the test's process: namespaces are anonymous and held by
//! threads, programs carry a parent-death signal. A test that is killed leaves nothing behind.

#![forbid(unsafe_code)]

pub mod admin;
pub mod authority;
pub mod binaries;
pub mod compare;
pub mod events;
pub mod exchange;
pub mod listen;
pub mod load;
pub mod manifest;
pub mod mesh;
pub mod namespace;
pub mod network;
pub mod proc;
pub mod program;
pub mod script;
pub mod sniff;
pub mod wait;
