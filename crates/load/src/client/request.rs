//! What requests look like, built once from the plan before the first of them.

pub(super) mod http1;
pub(super) mod http2;
