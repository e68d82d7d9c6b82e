//! Paths without ids: what clients put into paths must not fill the record.

/// Stands for one segment that is an id.
pub const WILDCARD: &str = "*";
/// At the end of a path, stands for any number of further segments.
pub const REST: &str = "**";
/// Segments of a folded path; [`REST`] stands for those beyond.
const SEGMENTS_MAX: usize = 8;
/// Bytes of a folded path without its [`REST`].
const PATH_BYTES_MAX: usize = 160;
/// A longer segment is an id.
const SEGMENT_BYTES_MAX: usize = 64;
/// A segment with a digit that has so many bytes is an id, as tokens and ULIDs are.
const TOKEN_BYTES_MIN: usize = 20;
/// Hexadecimal digits from so many on are an id.
const HEX_BYTES_MIN: usize = 8;

/// How much of a path is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All segments that are not ids.
    Path,
    /// The first segment.
    Prefix,
    /// Nothing.
    None,
}

/// Replaces `into` with the canonical path, in which [`WILDCARD`] stands for each id.
pub fn fold(path: &str, detail: Detail, into: &mut String) {
    into.clear();
    let Some(rest) = path.strip_prefix('/') else {
        // `OPTIONS *`: no path that a prefix would match.
        return into.push_str(REST);
    };
    let segments_max = match detail {
        Detail::Path => SEGMENTS_MAX,
        Detail::Prefix => 1,
        Detail::None => 0,
    };
    for (number, segment) in rest.split('/').enumerate() {
        into.push('/');
        if number >= segments_max || into.len() + segment.len() > PATH_BYTES_MAX {
            return into.push_str(REST);
        }
        into.push_str(if is_id(segment) { WILDCARD } else { segment });
    }
}

fn is_id(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let (mut digits, mut hex, mut dashes, mut stars) = (0, 0, 0, 0);
    for byte in bytes {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'a'..=b'f' | b'A'..=b'F' => hex += 1,
            b'-' => dashes += 1,
            b'*' => stars += 1,
            _ => {}
        }
    }
    let (all, hex) = (bytes.len(), hex + digits);
    let is_uuid = all == 36 && dashes == 4 && hex == 32;
    let is_hex = all >= HEX_BYTES_MIN && hex == all;
    let is_number = all > 0 && digits == all;
    let is_token = is_hex || all >= TOKEN_BYTES_MIN;
    is_number || is_uuid || (digits > 0 && is_token) || stars > 0 || all > SEGMENT_BYTES_MAX
}
