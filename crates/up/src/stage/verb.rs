//! Words by which `leno` starts itself as a stage.

/// The first process of a pod.
pub const FIRST: &str = "__first";
/// A container or proxy of a pod, until it becomes the program.
pub const CONTAINER: &str = "__container";
/// A program in a running container (exec probes, preStop), until it becomes the program.
pub const INSIDE: &str = "__inside";
/// A program of the node, until it becomes the program.
pub const NODE: &str = "__node";

/// A program below directories that only their owner may enter ([`crate::passage`]), until it becomes the program.
pub const PASSAGE: &str = "__passage";
