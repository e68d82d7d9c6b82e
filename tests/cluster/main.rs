//! Leno on a real cluster: what `make test-cluster` runs (`cargo nextest run --profile cluster`), and `make test` does not.
//!
//! The mesh is installed and the images are loaded when these begin; `cargo xtask test-cluster` sees to both. Each test has a
//! namespace of its own, which is gone when it ends. Nothing here knows how the cluster was made, but for what looks at the
//! node itself: captures on its wire, and the end of its API server.
//!
//! [`ground`] is what the tests stand on: `kubectl`, workers as manifests, a steady load, the metrics of proxies.

mod access;
mod bench;
mod check;
mod churn;
mod commands;
mod discovery;
mod examples;
mod ground;
mod identity;
mod injection;
mod mesh;
mod outages;
mod policy;
mod policy_tour;
mod renewal;
mod replicas;
mod rollout;
mod routes;
mod seeing;
mod upgrade;
mod workloads;
