//! Session persistence (GEP-1619): the requests of a session go to one endpoint. Pure.
//!
//! The client holds the session as a [`Token`] in a cookie or a header, so proxies keep nothing about it. The token names its
//! endpoint by hashes, and a MAC follows its fields. This module reads and writes both; it does not know the MAC's algorithm.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the Gateway API allows for `sessionName`.
pub const NAME_BYTES_MAX: usize = 128;
/// Of several cookies with the name, so many are looked at: each costs a MAC.
pub const TOKENS_MAX: usize = 4;
/// The first byte of a token. Another layout gets another number.
const VERSION: u8 = 1;
/// Bytes of a token before its MAC.
const FIELDS_BYTES: usize = 25;
/// Bytes of its MAC: the first half of SHA-256.
pub const MAC_BYTES: usize = 16;
/// Bytes of a token as text: base64 without padding.
const TEXT_BYTES: usize = (FIELDS_BYTES + MAC_BYTES) * 4 / 3 + 1;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How sessions of a rule persist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// The place of its backend in the rule; `None` where sessions persist over all backends of the rule.
    pub backend: Option<u32>,
    /// Where the client holds the token.
    pub carrier: Carrier,
    /// The name of the cookie, or of the header in lower case.
    pub name: Arc<str>,
    /// So long after its beginning, a session ends.
    pub absolute_timeout: Option<Duration>,
    /// So long after its last request, a session ends.
    pub idle_timeout: Option<Duration>,
    /// The rule, and the Service where a policy of it asks for persistence. Tokens of one scope are worth nothing in another.
    pub scope: Arc<str>,
    /// What tokens are signed with; `None` where the control plane has not sent it: then no session persists.
    pub keys: Option<Keys>,
}

/// Where a client holds a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A header of this name, in requests and in responses.
    Header,
    /// A cookie of this name.
    Cookie {
        /// The cookie has a lifetime of its own, the absolute timeout; else the client removes it with its session.
        is_permanent: bool,
    },
}

/// Secrets that all proxies of the scope share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// For the MAC of tokens; one for each scope.
    pub token: [u8; 32],
    /// For the hashes of endpoints and backends; one for the mesh.
    pub endpoint: [u8; 32],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Persistence {
    /// # Errors
    /// The field that is not valid, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        check_name(&self.name, self.carrier).map_err(|why| ("sessionName", why))?;
        for (field, timeout) in
            [("absoluteTimeout", self.absolute_timeout), ("idleTimeout", self.idle_timeout)]
        {
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Err((field, "0s is not a valid timeout of a session".to_owned()));
            }
        }
        if self.carrier == (Carrier::Cookie { is_permanent: true })
            && self.absolute_timeout.is_none()
        {
            let why = "Permanent needs absoluteTimeout, which is the cookie's lifetime".to_owned();
            return Err(("cookieConfig.lifetimeType", why));
        }
        Ok(())
    }
}

/// Headers that mean something else: a token in one of these would break the request or the connection.
const NOT_FOR_TOKENS: [&str; 14] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "keep-alive",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// A name of a cookie or header is a token of HTTP.
fn check_name(name: &str, carrier: Carrier) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("has {} bytes; the range is 1 to {NAME_BYTES_MAX}", name.len()));
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if let Some(wrong) = name.chars().find(|c| !is_token(*c)) {
        return Err(format!("{name:?} has the character {wrong:?}"));
    }
    let lower = name.to_ascii_lowercase();
    let is_ours = lower.starts_with("l5d-")
        || lower.starts_with("leno-deadline")
        || lower.starts_with("grpc-");
    if carrier == Carrier::Header && (is_ours || NOT_FOR_TOKENS.contains(&lower.as_str())) {
        return Err(format!("{name:?} is a header with a meaning of its own"));
    }
    Ok(())
}

/// The name of a session whose author gives none: the same for the same scope, and different for others.
#[must_use]
pub fn default_name(scope: &str) -> String {
    // FNV-1a: it need not be secret, only the same in every version.
    let hash = scope.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("leno-session-{hash:016x}")
}

/// What a client holds of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Hash of the backend.
    pub backend: u32,
    /// Hash of the endpoint.
    pub endpoint: u64,
    /// When the session began, in milliseconds from the beginning of 1970.
    pub begun_millis: u64,
    /// When its last request came.
    pub used_millis: u64,
}

impl Token {
    /// Its fields, which the MAC is for. Times have 48 bits, which are enough up to the year 10889.
    #[must_use]
    pub fn fields(&self) -> [u8; FIELDS_BYTES] {
        let mut fields = [0; FIELDS_BYTES];
        fields[0] = VERSION;
        fields[1..5].copy_from_slice(&self.backend.to_be_bytes());
        fields[5..13].copy_from_slice(&self.endpoint.to_be_bytes());
        fields[13..19].copy_from_slice(&self.begun_millis.to_be_bytes()[2..]);
        fields[19..25].copy_from_slice(&self.used_millis.to_be_bytes()[2..]);
        fields
    }

    /// As text: fields, then MAC.
    #[must_use]
    pub fn text(&self, mac: [u8; MAC_BYTES]) -> String {
        let mut bytes = [0; FIELDS_BYTES + MAC_BYTES];
        bytes[..FIELDS_BYTES].copy_from_slice(&self.fields());
        bytes[FIELDS_BYTES..].copy_from_slice(&mac);
        let mut text = String::with_capacity(TEXT_BYTES);
        for three in bytes.chunks(3) {
            let at = |n: usize| u32::from(three.get(n).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for n in 0..=three.len() {
                text.push(char::from(BASE64[(bits >> (18 - 6 * n)) as usize & 63]));
            }
        }
        text
    }

    /// Reads a text; each token has one text. The MAC is not checked yet.
    #[must_use]
    pub fn read(text: &str) -> Option<(Self, [u8; MAC_BYTES])> {
        if text.len() != TEXT_BYTES {
            return None;
        }
        let mut bytes = [0_u8; FIELDS_BYTES + MAC_BYTES + 1];
        for (four, three) in text.as_bytes().chunks(4).zip(bytes.chunks_mut(3)) {
            let mut bits = 0;
            for (n, letter) in four.iter().enumerate() {
                let value = BASE64.iter().position(|known| known == letter)?;
                bits |= u32::try_from(value).ok()? << (18 - 6 * n);
            }
            three.copy_from_slice(&bits.to_be_bytes()[1..]);
        }
        let (all, spare) = bytes.split_at(FIELDS_BYTES + MAC_BYTES);
        if spare != [0] || all[0] != VERSION {
            return None;
        }
        let number = |from: usize, to: usize| {
            all[from..to].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let token = Self {
            backend: u32::try_from(number(1, 5)).ok()?,
            endpoint: number(5, 13),
            begun_millis: number(13, 19),
            used_millis: number(19, 25),
        };
        Some((token, all[FIELDS_BYTES..].try_into().ok()?))
    }

    /// Whether the session goes on. A clock that was set back ends no session.
    #[must_use]
    pub fn is_alive(&self, persistence: &Persistence, now_millis: u64) -> bool {
        let within = |since: u64, timeout: Option<Duration>| {
            let age = u128::from(now_millis.saturating_sub(since));
            timeout.is_none_or(|timeout| age <= timeout.as_millis())
        };
        within(self.begun_millis, persistence.absolute_timeout)
            && within(self.used_millis, persistence.idle_timeout)
    }
}

/// The values of the cookies with this name in a `Cookie` header.
pub fn cookies<'a>(header: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    header.split(';').filter_map(move |pair| {
        let (found, value) = pair.split_once('=')?;
        let value = value.trim_matches([' ', '\t']);
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        (found.trim_matches([' ', '\t']) == name).then(|| bare.unwrap_or(value))
    })
}

/// The path of a cookie, as far as its attribute can hold it.
#[must_use]
pub fn cookie_path(path: &str) -> &str {
    let is_good = |c: char| c.is_ascii_graphic() && c != ';';
    match path.find(|c| !is_good(c)) {
        _ if !path.starts_with('/') => "/",
        None => path,
        Some(at) => directory(&path[..at]),
    }
}

/// The longest path before the first character with a meaning in a regular expression.
#[must_use]
pub fn regex_path(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.find(|c| r".*+?()[]{}|\^$".contains(c)) {
        None => cookie_path(pattern),
        Some(at) => cookie_path(directory(&pattern[..at])),
    }
}

/// Whole segments, without the last slash.
fn directory(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod tests;
