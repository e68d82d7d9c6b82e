//! Bytes as hexadecimal digits, as fingerprints and checksums are written.

/// Two lower-case digits for each byte, without separators.
#[must_use]
pub fn lower(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_digits_for_each_byte() {
        assert_eq!(super::lower(&[]), "");
        assert_eq!(super::lower(&[0, 1, 0xab, 0xff]), "0001abff");
    }
}
