//! What tests on a cluster stand on.
//!
//! - [`kubectl`]: the cluster, asked as its operators ask it.
//! - [`change`]: what all tests share, otherwise for a while.
//! - [`control`]: the control plane, its replicas and its leader.
//! - [`certificate`]: certificates that a test brings.
//! - [`place`]: a namespace for one test.
//! - [`worker`]: service nodes as manifests.
//! - [`route`]: routes, and what they are told.
//! - [`load`]: steady requests from inside of the cluster, each counted.
//! - [`node`]: processes of pods and of the cluster, as the machine sees them.
//! - [`proxy`]: what the proxies of pods count.

pub(crate) mod certificate;
pub(crate) mod change;
pub(crate) mod control;
pub(crate) mod kubectl;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod place;
pub(crate) mod proxy;
pub(crate) mod route;
pub(crate) mod worker;
