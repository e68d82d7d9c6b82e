//! The trace that a request belongs to, as its headers say: W3C's `traceparent`, or B3 in one header or in several. Pure.
//!
//! What is not valid is ignored, as the specification asks: a broken header must not break a request.

/// Of a request, or of a span that the proxy adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Never 0.
    pub trace_id: u128,
    /// The span that asks; never 0.
    pub span_id: u64,
    /// Whether the trace is kept; `None` where the decision is left to us (B3 alone can say that).
    pub sampled: Option<bool>,
    /// The headers that carried it, and that carry it on.
    pub carried_by: CarriedBy,
}

/// Which headers carry a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedBy {
    /// `traceparent`.
    pub w3c: bool,
    /// `b3`.
    pub b3: bool,
    /// `x-b3-traceid` and its companions.
    pub x_b3: bool,
    /// B3 with 64 bits of a trace's identifier.
    pub is_short: bool,
}

/// The headers of a request that carry a trace, as far as they are there.
#[derive(Default)]
struct Carriers<'a> {
    traceparent: Option<&'a [u8]>,
    b3: Option<&'a [u8]>,
    trace: Option<&'a [u8]>,
    span: Option<&'a [u8]>,
    sampled: Option<&'a [u8]>,
    flags: Option<&'a [u8]>,
}

impl<'a> Carriers<'a> {
    /// The first header of each name counts.
    fn add(&mut self, name: &[u8], value: &'a [u8]) {
        // Few names have these lengths.
        let place = match name.len() {
            2 if name.eq_ignore_ascii_case(b"b3") => &mut self.b3,
            10 if name.eq_ignore_ascii_case(b"x-b3-flags") => &mut self.flags,
            11 if name.eq_ignore_ascii_case(b"traceparent") => &mut self.traceparent,
            11 if name.eq_ignore_ascii_case(b"x-b3-spanid") => &mut self.span,
            12 if name.eq_ignore_ascii_case(b"x-b3-traceid") => &mut self.trace,
            12 if name.eq_ignore_ascii_case(b"x-b3-sampled") => &mut self.sampled,
            _ => return,
        };
        place.get_or_insert(value.trim_ascii());
    }
}

impl TraceContext {
    /// Of a request with these headers. W3C's header wins over B3.
    pub fn read<'a>(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Self> {
        let mut carriers = Carriers::default();
        headers.for_each(|(name, value)| carriers.add(name, value));
        let w3c = carriers.traceparent.and_then(traceparent);
        let b3 = carriers.b3.and_then(b3_single);
        let x_b3 = carriers.trace.and_then(|trace| {
            let is_debug = carriers.flags == Some(b"1");
            let state = if is_debug { Some(&b"d"[..]) } else { carriers.sampled };
            b3_parts(trace, carriers.span?, state)
        });
        let first = w3c.or(b3).or(x_b3)?;
        let carried_by = CarriedBy {
            w3c: w3c.is_some(),
            b3: b3.is_some(),
            x_b3: x_b3.is_some(),
            is_short: first.carried_by.is_short,
        };
        Some(Self { carried_by, ..first })
    }

    /// The headers that carry the trace on, in the form in which it came; W3C's where it begins here.
    pub fn headers(&self, mut put: impl FnMut(&'static str, Value)) {
        let CarriedBy { w3c, b3, x_b3, is_short } = self.carried_by;
        let Self { trace_id, span_id, sampled, .. } = *self;
        let flag = if sampled == Some(true) { b'1' } else { b'0' };
        if w3c || !(b3 || x_b3) {
            let mut value = Value { bytes: *TRACEPARENT, length: TRACEPARENT.len() };
            value.bytes[3..19].copy_from_slice(&digits((trace_id >> 64) as u64));
            value.bytes[19..35].copy_from_slice(&digits(trace_id as u64));
            value.bytes[36..52].copy_from_slice(&digits(span_id));
            value.bytes[54] = flag;
            put("traceparent", value);
        }
        let mut trace = Value::default();
        if b3 || x_b3 {
            if !is_short {
                trace.push(&digits((trace_id >> 64) as u64));
            }
            trace.push(&digits(trace_id as u64));
        }
        if b3 {
            let mut value = trace;
            value.push(b"-");
            value.push(&digits(span_id));
            value.push(&[b'-', flag]);
            put("b3", value);
        }
        if x_b3 {
            put("x-b3-traceid", trace);
            put("x-b3-spanid", Value::of(&digits(span_id)));
            put("x-b3-sampled", Value::of(&[flag]));
        }
    }
}

/// The value of a header of a trace, made without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// ASCII.
    bytes: [u8; VALUE_BYTES_MAX],
    length: usize,
}

/// The longest value, as far as it is the same in all requests: version, 32 digits, 16 digits, flags.
const TRACEPARENT: &[u8; VALUE_BYTES_MAX] =
    b"00-00000000000000000000000000000000-0000000000000000-00";
const VALUE_BYTES_MAX: usize = 55;

impl Default for Value {
    fn default() -> Self {
        Self { bytes: [0; VALUE_BYTES_MAX], length: 0 }
    }
}

impl Value {
    fn of(text: &[u8]) -> Self {
        let mut value = Self::default();
        value.push(text);
        value
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.length..][..text.len()].copy_from_slice(text);
        self.length += text.len();
    }
}

/// A number in 16 digits.
fn digits(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&eight_digits((number >> 32) as u32).to_be_bytes());
    digits[8..].copy_from_slice(&eight_digits(number as u32).to_be_bytes());
    digits
}

/// Eight digits at once, the first one in the highest byte.
fn eight_digits(number: u32) -> u64 {
    // Each half of a byte moves to a byte of its own.
    let mut halves = u64::from(number);
    halves = (halves << 16 | halves) & 0x0000_ffff_0000_ffff;
    halves = (halves << 8 | halves) & 0x00ff_00ff_00ff_00ff;
    halves = (halves << 4 | halves) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte above 9: its digit is a letter.
    let letters = (halves + 6 * ONES) >> 4 & ONES;
    halves + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)
}

/// To repeat a byte.
const ONES: u64 = 0x0101_0101_0101_0101;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What each byte is as a digit; [`NO_DIGIT`] where it is none. Capitals are digits too, as some senders write them.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[DIGITS[digit] as usize] = digit as u8;
        values[DIGITS[digit].to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    values
};
const NO_DIGIT: u8 = 0x80;

/// `00-<32 digits>-<16 digits>-<2 digits>`; later versions may have more behind.
fn traceparent(text: &[u8]) -> Option<TraceContext> {
    let (head, rest) = text.split_first_chunk::<55>()?;
    let are_apart = [head[2], head[35], head[52]] == [b'-'; 3];
    let (version, flags) = (hex::<2>(&head[..2])?, hex::<2>(&head[53..])?);
    let more_is_valid = rest.is_empty() || (version > 0 && rest[0] == b'-');
    if !are_apart || version == 0xff || !more_is_valid {
        return None;
    }
    let span_id = hex::<16>(&head[36..52])?;
    context((trace_id(&head[3..35])?, false), span_id, Some(flags & 1 == 1))
}

/// `<trace>-<span>`, `<trace>-<span>-<state>` or `<trace>-<span>-<state>-<parent>`. The state alone names no trace.
fn b3_single(text: &[u8]) -> Option<TraceContext> {
    let mut parts = text.split(|byte| *byte == b'-');
    let (trace, span, state) = (parts.next()?, parts.next()?, parts.next());
    if let Some(parent) = parts.next() {
        hex::<16>(parent)?;
    }
    if parts.next().is_some() {
        return None;
    }
    b3_parts(trace, span, state)
}

fn b3_parts(trace: &[u8], span: &[u8], state: Option<&[u8]>) -> Option<TraceContext> {
    let is_short = trace.len() == 16;
    let trace_id = if is_short { hex::<16>(trace)?.into() } else { trace_id(trace)? };
    let sampled = match state {
        None => None,
        Some(b"1" | b"d" | b"true") => Some(true),
        Some(b"0" | b"false") => Some(false),
        Some(_) => return None,
    };
    context((trace_id, is_short), hex::<16>(span)?, sampled)
}

fn context(
    (trace_id, is_short): (u128, bool),
    span_id: u64,
    sampled: Option<bool>,
) -> Option<TraceContext> {
    let carried_by = CarriedBy { is_short, ..CarriedBy::default() };
    let context = TraceContext { trace_id, span_id, sampled, carried_by };
    (trace_id != 0 && span_id != 0).then_some(context)
}

/// Exactly 32 digits.
fn trace_id(text: &[u8]) -> Option<u128> {
    let (high, low) = text.split_at_checked(16)?;
    Some(u128::from(hex::<16>(high)?) << 64 | u128::from(hex::<16>(low)?))
}

/// Exactly so many digits, 16 at most.
fn hex<const DIGITS: usize>(text: &[u8]) -> Option<u64> {
    let text: &[u8; DIGITS] = text.try_into().ok()?;
    let (mut number, mut all) = (0, 0);
    let (eights, rest) = text.as_chunks::<8>();
    for eight in eights {
        let (value, is_valid) = eight_values(u64::from_be_bytes(*eight));
        all |= if is_valid { 0 } else { NO_DIGIT };
        number = number << 32 | u64::from(value);
    }
    for byte in rest {
        let value = VALUES[usize::from(*byte)];
        all |= value;
        number = number << 4 | u64::from(value & 0xf);
    }
    (all & NO_DIGIT == 0).then_some(number)
}

/// What eight digits say, and whether all of them are digits.
fn eight_values(text: u64) -> (u32, bool) {
    // 1 in each byte that is a letter, in lower case or capitals: both have this bit, and digits do not.
    let letters = text >> 6 & ONES;
    let low = text & (0x0f * ONES);
    let values = low + letters * 9;
    // Written again, in lower case, it must be the same.
    let lower = text | letters << 5;
    let mut packed = values & (0x0f * ONES);
    packed = (packed | packed >> 4) & 0x00ff_00ff_00ff_00ff;
    packed = (packed | packed >> 8) & 0x0000_ffff_0000_ffff;
    let number = (packed | packed >> 16) as u32;
    (number, eight_digits(number) == lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    /// Headers in, headers out; nothing where no trace is read.
    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: &[(&str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let read = TraceContext::read(headers.clone());
        let mut written = Vec::new();
        if let Some(read) = read {
            read.headers(|name, value| {
                written.push((name, String::from_utf8(value.as_bytes().to_vec()).unwrap()));
            });
        }
        let written: Vec<_> = written.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(written, expected, "{:?}", headers.collect::<Vec<_>>());
    }

    #[test]
    fn headers_that_carry_a_trace() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let unsampled = format!("00-{TRACE}-{SPAN}-00");
        check(&[("traceparent", &parent)], &[("traceparent", &parent)]);
        check(&[("traceparent", &unsampled)], &[("traceparent", &unsampled)]);
        let later = format!("01-{TRACE}-{SPAN}-ff-more");
        check(&[("traceparent", &later)], &[("traceparent", &parent)]);
        let b3 = format!("{TRACE}-{SPAN}-1");
        check(&[("b3", &b3)], &[("b3", &b3)]);
        let with_parent = format!("{TRACE}-{SPAN}-d-{SPAN}");
        check(&[("b3", &with_parent)], &[("b3", &b3)]);
        let short = format!("8448eb211c80319c-{SPAN}-0");
        check(&[("b3", &short)], &[("b3", &short)]);
        let several = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-sampled", "1")];
        check(&several, &several);
        let debug = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-flags", "1")];
        check(&debug, &several);
        let both = [("traceparent", parent.as_str()), ("b3", b3.as_str())];
        check(&both, &both);
    }

    #[test]
    fn headers_that_are_not_valid_are_ignored() {
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}x-{SPAN}-01"),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("01-{TRACE}-{SPAN}-01more"),
        ] {
            check(&[("traceparent", &wrong)], &[]);
        }
        for wrong in ["0", "1-2", &format!("{TRACE}-{SPAN}-x"), &format!("{TRACE}-{SPAN}-1-2")] {
            check(&[("b3", wrong)], &[]);
        }
        check(&[("x-b3-traceid", TRACE)], &[]);
    }

    /// Each byte in each place of eight, and a number there and back.
    #[test]
    fn digits_at_once_are_digits_one_by_one() {
        for place in 0..8 {
            for byte in 0..=u8::MAX {
                let mut text = *b"0a9F5c7E";
                text[place] = byte;
                let one_by_one = text.iter().try_fold(0_u64, |number, byte| {
                    let value = char::from(*byte).to_digit(16)?;
                    Some(number << 4 | u64::from(value))
                });
                assert_eq!(hex::<8>(&text), one_by_one, "{text:?}");
            }
        }
        let mut number = 1_u64;
        for _ in 0..1000 {
            number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number >> 7;
            let text = digits(number);
            assert_eq!(std::str::from_utf8(&text).unwrap(), format!("{number:016x}"));
            assert_eq!(hex::<16>(&text), Some(number));
            assert_eq!(hex::<16>(&text.to_ascii_uppercase()), Some(number));
        }
    }
}
