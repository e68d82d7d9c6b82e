//! How the mesh gets into a cluster and out of it again, and whether it is well there. Pure apart from random keys: no cluster, no
//! files, no clock; `leno`'s commands read and write.
//!
//! - [`chart`]: the chart in `deploy/leno`, which is in this crate, and its rendering without Helm.
//! - [`template`]: the small part of Go's templates in which it is written.
//! - [`values`]: what may be chosen: defaults, files, `--set`, held against the chart's schema.
//! - [`certificates`]: roots and issuers: made, or brought and looked at.
//! - [`uninstall`]: everything that an installation leaves in a cluster.
//! - [`others`]: other control planes of the same cluster, and what is theirs.
//! - [`linkerd`]: linkerd's injector, which reads the same annotation.
//! - [`mod@check`]: facts about a cluster to findings, each with what to do.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod chart;
pub mod check;
pub mod linkerd;
pub mod others;
pub mod template;
pub mod uninstall;
pub mod values;
