//! Ids of denials, as `3f9a01c200000a17`: a hash of the pod whose proxy denied, then the number of the denial there.
//!
//! The hash spares a question to each proxy of the mesh. An id holds nothing of the client or the policy: strangers get ids, too.

use std::fmt;

/// The proxy, and the number of the denial there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DenialId {
    pod: u32,
    number: u32,
}

impl DenialId {
    /// `number` is what the proxy of the pod has counted.
    #[must_use]
    pub fn new(namespace: &str, pod: &str, number: u32) -> Self {
        Self { pod: hash(namespace, pod), number }
    }

    /// Reads 16 hexadecimal digits of lower case; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return None;
        }
        let half = |text: &str| u32::from_str_radix(text, 16).ok();
        Some(Self { pod: half(&text[..8])?, number: half(&text[8..])? })
    }

    /// Whether the proxy of this pod may have made it. Of ten thousand pods, two may have the same hash.
    #[must_use]
    pub fn is_of(&self, namespace: &str, pod: &str) -> bool {
        self.pod == hash(namespace, pod)
    }

    /// The number of the denial at its proxy.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl fmt::Display for DenialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{:08x}", self.pod, self.number)
    }
}

/// FNV-1a of `namespace/pod`.
fn hash(namespace: &str, pod: &str) -> u32 {
    let bytes = namespace.bytes().chain([b'/']).chain(pod.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::DenialId;

    #[test]
    fn ids_name_their_pod() {
        let id = DenialId::new("shop", "web-1", 0xa17);
        assert!(id.is_of("shop", "web-1"));
        assert!(!id.is_of("shop", "web-2"));
        assert!(id.to_string().ends_with("00000a17"), "{id}");
        assert_eq!(DenialId::parse(&id.to_string()), Some(id));
        for wrong in [
            "",
            "web-1",
            "3f9a01c200000a1",
            "3f9a01c200000a171",
            "3F9a01c200000a17",
            "3f9a01c20000 a17",
        ] {
            assert_eq!(DenialId::parse(wrong), None, "{wrong}");
        }
    }
}
