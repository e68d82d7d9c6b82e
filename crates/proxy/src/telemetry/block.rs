//! What a label set has counted, on one thread.

/// Numbers of one label set, of one thread.
pub(super) trait Block: Default {
    /// Adds the numbers of a block that nobody writes any more.
    fn absorb(&self, gone: &Self);
}
