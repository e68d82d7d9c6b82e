//! Keyed hashes: HMAC with SHA-256.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use std::fmt;

/// A key of keyed hashes.
pub struct MacKey(hmac::Key);

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey")
    }
}

impl MacKey {
    /// Of a secret of any length.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, secret))
    }

    /// The hash of these parts as one text.
    #[must_use]
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        let mut mac = [0; 32];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }
}

/// Compares in a time that does not depend on where they differ.
#[must_use]
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_published_example() {
        let expected = [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9,
            0x64, 0xec, 0x38, 0x43,
        ];
        let key = MacKey::new(b"Jefe");
        assert_eq!(key.mac(&[b"what do ya want ", b"for nothing?"]), expected);
        assert!(is_equal(&key.mac(&[b"what do ya want for nothing?"]), &expected));
        assert!(!is_equal(&key.mac(&[b"what"]), &expected));
    }
}
