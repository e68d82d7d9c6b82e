//! How traffic reaches us: the kernel redirects it inside the workload's network namespace.
//!
//! - [`rules`]: settings to rules; pure, and the place that says what is captured and why.
//! - [`netlink`]: the rules as the kernel takes them; [`apply`]: into the kernel, and out again.
//!
//! Where a redirected connection was going: [`crate::original_destination`].

pub mod apply;
pub mod netlink;
pub mod rules;

#[cfg(test)]
mod tests;
