use super::*;
use crate::limit::{NAMESPACE_PATTERNS_BYTES_MAX, PATTERN_BYTES_MAX};

/// The error's kind, or the bytes that the pattern is counted as.
#[track_caller]
fn check(text: &str, expected: &str) {
    let shown = match Pattern::parse(text) {
        Ok(pattern) => pattern.bytes().to_string(),
        Err(PatternError::Malformed { .. }) => "malformed".to_owned(),
        Err(PatternError::TooLarge { .. }) => "too large".to_owned(),
        Err(error @ PatternError::OverBudget { .. }) => error.to_string(),
    };
    assert_eq!(shown, expected, "{text:?}");
}

#[test]
fn a_pattern_has_a_size_whatever_its_text() {
    check("/v[0-9]+", "512");
    check("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "2048");
    check("(a|b|c)", "682");
    check("(?:a{999}){99}", "too large");
    check("(?:(?:.?){999}){80}", "too large");
    check("(?:(?:(?:){999}){999}){999}", "too large");
    check("a{4294967295}", "too large");
    // Each group costs an offset for each state.
    check(&"()".repeat(PATTERN_BYTES_MAX / 2), "too large");
    check("(", "malformed");
    check("a)|(?:b", "malformed");
    check("/api/(?!admin).*", "malformed");
    // Without counted repetition every pattern of the longest text fits.
    for unit in ["a", ".?", "\\w", "[^a]", "a|", "(?:a)", ".*"] {
        let text = unit.repeat(PATTERN_BYTES_MAX / unit.len());
        let pattern = Pattern::parse(&text).unwrap();
        assert!(pattern.bytes() <= PATTERN_COMPILED_BYTES_MAX, "{unit}: {}", pattern.bytes());
    }
}

fn distinct(number: usize) -> String {
    format!("/patterns/{number:05}/[0-9]+/x.*")
}

#[test]
fn a_route_has_a_budget_and_so_have_all_together() {
    let patterns = Patterns::new("the namespace", NAMESPACE_PATTERNS_BYTES_MAX);
    let taken = |routes: std::ops::Range<usize>, each: usize| {
        let mut taken = 0;
        for route in routes {
            patterns.begin_route();
            let texts = (0..each).map(|number| distinct(route * each + number));
            taken += texts.filter(|text| patterns.compile(text).is_ok()).count();
        }
        taken
    };
    let one = taken(0..1, 4_000);
    assert!((100..1_000).contains(&one), "{one}");
    assert!(patterns.route_bytes() <= ROUTE_PATTERNS_BYTES_MAX);
    let error = patterns.compile("/one/more").unwrap_err().to_string();
    assert!(error.ends_with("those of the route need more than 128 KiB when compiled"), "{error}");
    // What others hold is theirs, and all hold no more than the namespace may.
    assert_eq!(taken(1..2, 4_000), one);
    let all = 2 * one + taken(2..40, 4_000);
    assert!(all <= one * NAMESPACE_PATTERNS_BYTES_MAX / ROUTE_PATTERNS_BYTES_MAX, "{all}");
    patterns.begin_route();
    let error = patterns.compile("/one/more").unwrap_err().to_string();
    assert!(error.contains("those of the namespace need more than 4096 KiB"), "{error}");
}

#[test]
fn equal_patterns_are_shared_and_paid_for_once() {
    let patterns = Patterns::new("the namespace", 1 << 10);
    patterns.begin_route();
    let first = patterns.compile("/v[0-9]+").unwrap();
    for _ in 0..1_000 {
        patterns.begin_route();
        let again = patterns.compile("/v[0-9]+").unwrap();
        assert!(Arc::ptr_eq(&first.regex, &again.regex));
        assert_eq!(patterns.route_bytes(), first.bytes());
    }
    let next = patterns.renewed();
    assert!(Arc::ptr_eq(&first.regex, &next.compile("/v[0-9]+").unwrap().regex));
}

/// A refused pattern has cost time, and a route of nothing else must not cost it 4,000 times.
#[test]
fn refused_patterns_are_paid_for() {
    let patterns = Patterns::new("the namespace", NAMESPACE_PATTERNS_BYTES_MAX);
    patterns.begin_route();
    let large = |number: usize| format!("(?:{number}a{{999}}){{99}}");
    let too_large =
        |text: &String| matches!(patterns.compile(text), Err(PatternError::TooLarge { .. }));
    let looked_at = (0..4_000).map(large).filter(too_large).count();
    assert_eq!(looked_at, ROUTE_PATTERNS_BYTES_MAX / PATTERN_COMPILED_BYTES_MAX);
    // The same one again is known, and costs nothing.
    assert!(too_large(&large(0)));
}

/// A pattern of optional parts has all of its states active at each byte. The bound is wide, for a busy machine and
/// code that is not optimized; before there were limits, one such pattern took minutes.
#[test]
fn matching_stays_cheap() {
    let patterns = Patterns::new("the Service", crate::limit::SERVICE_PATTERNS_BYTES_MAX);
    let each = ROUTE_PATTERNS_BYTES_MAX / PATTERN_COMPILED_BYTES_MAX;
    let mut worst = Vec::new();
    for number in 0..100 {
        if number % each == 0 {
            patterns.begin_route();
        }
        worst.extend(patterns.compile(&format!("(?:.?){{{}}}", 500 - number)).ok());
    }
    assert_eq!(worst.len(), 4);
    let path = format!("/{}", "a".repeat(1_023));
    let began = std::time::Instant::now();
    assert!(!worst.iter().any(|pattern| pattern.is_match(&path)));
    assert!(began.elapsed().as_secs() < 3, "{:?}", began.elapsed());
}
