//! What tests on a cluster stand on.
//!
//! - [`kubectl`]: the cluster, asked as its operators ask it.
//! - [`change`]: what all tests share, otherwise for a while.
//! - [`place`]: a namespace for one test.
//! - [`worker`]: service nodes as manifests.
//! - [`load`]: steady requests from inside of the cluster, each counted.
//! - [`node`]: processes of pods and of the cluster, as the machine sees them.
//! - [`proxy`]: what the proxies of pods count.

pub(crate) mod change;
pub(crate) mod kubectl;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod place;
pub(crate) mod proxy;
pub(crate) mod worker;
