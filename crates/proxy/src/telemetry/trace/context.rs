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
        let flag = if sampled == Some(true) { "1" } else { "0" };
        let span = |value: Value| value.hex(span_id);
        let whole = |value: Value| value.hex((trace_id >> 64) as u64).hex(trace_id as u64);
        let trace = |value: Value| match is_short {
            true => value.hex(trace_id as u64),
            false => whole(value),
        };
        if w3c || !(b3 || x_b3) {
            let start = whole(Value::EMPTY.text("00-")).text("-");
            put("traceparent", span(start).text("-0").text(flag));
        }
        if b3 {
            put("b3", span(trace(Value::EMPTY).text("-")).text("-").text(flag));
        }
        if x_b3 {
            put("x-b3-traceid", trace(Value::EMPTY));
            put("x-b3-spanid", span(Value::EMPTY));
            put("x-b3-sampled", Value::EMPTY.text(flag));
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

/// `traceparent` is the longest: `00-`, 32 digits, `-`, 16 digits, `-01`.
const VALUE_BYTES_MAX: usize = 55;

impl Value {
    const EMPTY: Self = Self { bytes: [0; VALUE_BYTES_MAX], length: 0 };

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn text(mut self, text: &str) -> Self {
        self.bytes[self.length..][..text.len()].copy_from_slice(text.as_bytes());
        self.length += text.len();
        self
    }

    /// In 16 digits.
    fn hex(mut self, number: u64) -> Self {
        let (pairs, _) = self.bytes[self.length..].as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(number.to_be_bytes()) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]];
        }
        self.length += 16;
        self
    }
}

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
    for byte in text {
        let value = VALUES[usize::from(*byte)];
        all |= value;
        number = number << 4 | u64::from(value & 0xf);
    }
    (all & NO_DIGIT == 0).then_some(number)
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
}
