//! The trace that a request belongs to, as its headers say: W3C's `traceparent`, or B3 in one header or in several. Pure.
//!
//! What is not valid is ignored, as the specification asks: a broken header must not break a request.

use leno_model::route::RequestView;

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

/// Calls its last argument with the value of the header of this name, where there is one.
type Headers<'a> = dyn FnMut(&str, &mut dyn FnMut(&str)) + 'a;

impl TraceContext {
    /// Of a request.
    #[must_use]
    pub fn of(request: &impl RequestView) -> Option<Self> {
        Self::read(&mut |name, read| {
            request.any_header(name, &mut |value| {
                read(value);
                true
            });
        })
    }

    /// W3C's header wins over B3.
    pub fn read(header: &mut Headers<'_>) -> Option<Self> {
        let mut get = |name: &str| {
            let mut found = None;
            header(name, &mut |value| found = Some(value.trim().to_owned()));
            found
        };
        let w3c = get("traceparent").and_then(|text| traceparent(&text));
        let b3 = get("b3").and_then(|text| b3_single(&text));
        let x_b3 = get("x-b3-traceid").and_then(|trace| {
            let span = get("x-b3-spanid")?;
            let flags = get("x-b3-flags").is_some_and(|flags| flags == "1");
            let sampled = get("x-b3-sampled");
            b3_parts(&trace, &span, if flags { Some("d") } else { sampled.as_deref() })
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

    /// The trace's identifier in 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id_text(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The headers that carry the trace on, in the form in which it came; W3C's where it begins here.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let CarriedBy { w3c, b3, x_b3, is_short } = self.carried_by;
        let Self { trace_id, span_id, sampled, .. } = *self;
        let sampled = sampled.unwrap_or(false);
        let digits = if is_short { 16 } else { 32 };
        let trace = move || format!("{trace_id:0digits$x}");
        let flag = u8::from(sampled);
        let none = !(w3c || b3 || x_b3);
        let fields = [
            (w3c || none)
                .then(|| ("traceparent", format!("00-{trace_id:032x}-{span_id:016x}-{flag:02x}"))),
            b3.then(|| ("b3", format!("{}-{span_id:016x}-{flag}", trace()))),
            x_b3.then(|| ("x-b3-traceid", trace())),
            x_b3.then(|| ("x-b3-spanid", format!("{span_id:016x}"))),
            x_b3.then(|| ("x-b3-sampled", flag.to_string())),
        ];
        fields.into_iter().flatten()
    }
}

/// `00-<32 digits>-<16 digits>-<2 digits>`; later versions may have more behind.
fn traceparent(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = hex(parts.next()?, 32)?;
    let span_id = hex(parts.next()?, 16)?;
    let flags = hex(parts.next()?, 2)?;
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    context(trace_id, span_id, Some(flags & 1 == 1), false)
}

/// `<trace>-<span>`, `<trace>-<span>-<state>` or `<trace>-<span>-<state>-<parent>`. The state alone names no trace.
fn b3_single(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let (trace, span, state) = (parts.next()?, parts.next()?, parts.next());
    if let Some(parent) = parts.next() {
        hex(parent, 16)?;
    }
    if parts.next().is_some() {
        return None;
    }
    b3_parts(trace, span, state)
}

fn b3_parts(trace: &str, span: &str, state: Option<&str>) -> Option<TraceContext> {
    let is_short = trace.len() == 16;
    let trace_id = if is_short { hex(trace, 16)? } else { hex(trace, 32)? };
    let sampled = match state {
        None => None,
        Some("1" | "d" | "true") => Some(true),
        Some("0" | "false") => Some(false),
        Some(_) => return None,
    };
    context(trace_id, hex(span, 16)?, sampled, is_short)
}

fn context(
    trace_id: u128,
    span_id: u128,
    sampled: Option<bool>,
    is_short: bool,
) -> Option<TraceContext> {
    let span_id = u64::try_from(span_id).ok()?;
    let carried_by = CarriedBy { is_short, ..CarriedBy::default() };
    (trace_id != 0 && span_id != 0).then_some(TraceContext {
        trace_id,
        span_id,
        sampled,
        carried_by,
    })
}

/// Exactly so many digits, in lower case as both specifications say, or in capitals as some senders write.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    /// Headers in, headers out; nothing where no trace is read.
    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: &[(&str, &str)]) {
        let read = TraceContext::read(&mut |name, read| {
            if let Some((_, value)) = headers.iter().find(|(known, _)| *known == name) {
                read(value);
            }
        });
        let written: Vec<_> = read.iter().flat_map(TraceContext::headers).collect();
        let written: Vec<_> = written.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(written, expected, "{headers:?}");
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
        ] {
            check(&[("traceparent", &wrong)], &[]);
        }
        for wrong in ["0", "1-2", &format!("{TRACE}-{SPAN}-x"), &format!("{TRACE}-{SPAN}-1-2")] {
            check(&[("b3", wrong)], &[]);
        }
        check(&[("x-b3-traceid", TRACE)], &[]);
    }
}
