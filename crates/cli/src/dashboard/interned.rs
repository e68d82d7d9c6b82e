//! Keys that are compared by address.

use super::counters::Key;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A key of a set, which has each key once: addresses are compared, not names. Windows of large meshes add a million sums.
#[derive(Clone, Debug)]
pub(super) struct Interned(pub(super) Arc<Key>);

impl PartialEq for Interned {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Interned {}

impl Hash for Interned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.0), state);
    }
}

impl Deref for Interned {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.0
    }
}
