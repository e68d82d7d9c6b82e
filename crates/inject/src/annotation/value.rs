//! Values of annotations: each function takes the text, and answers it in one canonical form or says what it may be.

use ipnet::IpNet;
use leno_model::policy::DefaultPolicy;
use leno_text::duration;
use std::net::IpAddr;

/// One of a few words.
///
/// # Errors
/// It is not one of them; they are named.
pub fn one_of(text: &str, words: &[&str]) -> Result<String, String> {
    if words.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not one of {}", words.join(", ")))
    }
}

/// One part of a list of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPart<'a> {
    /// From the first to the last; of one port, both are it.
    Numbers(u16, u16),
    /// The port of a container that has this name.
    Named(&'a str),
}

/// Every part of a list of ports, `25,1000-2000,mysql`, or why it is none. Everybody reads such lists by this.
pub fn port_parts(text: &str) -> impl Iterator<Item = Result<PortPart<'_>, String>> {
    parts(text).map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (port(first.trim()), port(last.trim())) {
            (Some(first), Some(last)) if first <= last => Ok(PortPart::Numbers(first, last)),
            _ if is_port_name(part) => Ok(PortPart::Named(part)),
            _ => Err(format!("{part:?} is not a port (1 to 65535) or a range FIRST-LAST")),
        }
    })
}

/// Ports and ranges of ports, `25,1000-2000`; nothing is an empty list.
///
/// # Errors
/// The first part that is neither.
pub fn ports(text: &str) -> Result<String, String> {
    let read = |part| match part {
        Ok(PortPart::Numbers(first, last)) => Ok(shown(first, last)),
        Ok(PortPart::Named(name)) => {
            Err(format!("{name:?} is not a port (1 to 65535) or a range FIRST-LAST"))
        }
        Err(wrong) => Err(wrong),
    };
    Ok(port_parts(text).map(read).collect::<Result<Vec<_>, _>>()?.join(","))
}

/// The same with the numbers of ports that are given by name; `number_of` knows those of the pod. A pod that says a name of its own must
/// have it (`is_own`). What a namespace says to all of its pods means those that have it.
///
/// # Errors
/// The first part that is not a port.
pub fn own_ports(
    text: &str,
    number_of: &dyn Fn(&str) -> Option<u16>,
    is_own: bool,
) -> Result<String, String> {
    let mut found = Vec::new();
    for part in port_parts(text) {
        match part? {
            PortPart::Numbers(first, last) => found.push(shown(first, last)),
            PortPart::Named(name) => match number_of(name) {
                Some(number) => found.push(shown(number, number)),
                None if is_own => return Err(no_such_port(name)),
                None => {}
            },
        }
    }
    Ok(found.join(","))
}

/// What is said of a name that a pod says of itself, and that is not one of its ports.
#[must_use]
pub fn no_such_port(name: &str) -> String {
    format!(
        "{name:?} is not a port (1 to 65535), a range FIRST-LAST or the name of a port of this pod"
    )
}

fn shown(first: u16, last: u16) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// As Kubernetes has it: at least one letter, so that it is never a number or a range.
fn is_port_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 15
        && text.bytes().all(known)
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}

/// `parse` alone would take `+80`.
fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u16>().ok().filter(|port| digits && *port > 0)
}

/// Addresses and CIDRs.
///
/// # Errors
/// The first part that is neither.
pub fn networks(text: &str) -> Result<String, String> {
    list(text, |part| {
        let net = part.parse::<IpNet>().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
        net.map(|net| net.to_string())
            .map_err(|_| format!("{part:?} is not an IP address or a CIDR such as 10.0.0.0/8"))
    })
}

fn list(text: &str, read: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    Ok(parts(text).map(read).collect::<Result<Vec<_>, _>>()?.join(","))
}

/// The parts of a list. One comma may come last, as linkerd has it.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    let parts = (!text.is_empty()).then(|| text.split(','));
    parts.into_iter().flatten().map(str::trim)
}

/// Who may connect.
///
/// # Errors
/// It is not one of the three words. Of linkerd's others it is said what is nearest here: they look at the client's network, too, or only warn,
/// and must not open more than they did in silence.
pub fn policy(text: &str) -> Result<DefaultPolicy, String> {
    DefaultPolicy::parse(text)
}

/// `info`, or `warn,leno_proxy::balance=debug`.
///
/// # Errors
/// The first part that is not a level.
pub fn log_level(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in text.split(',').map(str::trim) {
        let (target, level) = part.split_once('=').unwrap_or(("any", part));
        let target_is_path = !target.is_empty()
            && target
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "_:-".contains(letter));
        if !target_is_path || !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(format!("{part:?} is not a level ({}) or TARGET=LEVEL", LEVELS.join(", ")));
        }
    }
    Ok(text.to_owned())
}

/// The reference of an image. What it names is for the node to find out.
///
/// # Errors
/// It has letters that no reference has, or nothing that tells which version.
pub fn image(text: &str) -> Result<String, String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let name = text.rsplit('/').next().unwrap_or(text);
    let versioned = name
        .split_once([':', '@'])
        .is_some_and(|(name, version)| !name.is_empty() && !version.is_empty());
    if text.len() <= 512 && text.bytes().all(letter) && versioned {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not an image with a tag or digest"))
    }
}

/// Whole seconds of `30s`, `2m`, `1h30m`.
///
/// # Errors
/// It is not a duration, has a part of a second, or is more than `max` seconds.
pub fn duration_seconds(text: &str, max: u64) -> Result<u64, String> {
    let duration = duration::parse(text)?;
    if duration.subsec_nanos() != 0 {
        Err(format!("{text:?} is not a whole number of seconds"))
    } else if duration.as_secs() > max {
        Err(format!("{text:?} is too long: at most {max}s"))
    } else {
        Ok(duration.as_secs())
    }
}

/// A quantity of Kubernetes, above zero: `100m`, `0.5`, `16Mi`, `1e3`.
///
/// # Errors
/// It is none.
pub fn quantity(text: &str) -> Result<String, String> {
    match millis(text) {
        Some(amount) if amount > 0 => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a quantity above zero, such as 100m, 0.5 or 16Mi")),
    }
}

/// What is asked for may be nothing, too.
///
/// # Errors
/// It is not a quantity.
pub fn request(text: &str) -> Result<String, String> {
    match millis(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("{text:?} is not a quantity such as 100m, 0.5 or 16Mi")),
    }
}

/// A quantity in thousandths, rounded up, as Kubernetes compares them.
#[must_use]
pub fn millis(text: &str) -> Option<u128> {
    const SUFFIXES: [(&str, u32, u32); 13] = [
        // Suffix, base, exponent; thousandths come last.
        ("Ki", 1024, 1),
        ("Mi", 1024, 2),
        ("Gi", 1024, 3),
        ("Ti", 1024, 4),
        ("Pi", 1024, 5),
        ("Ei", 1024, 6),
        ("k", 1000, 1),
        ("M", 1000, 2),
        ("G", 1000, 3),
        ("T", 1000, 4),
        ("P", 1000, 5),
        ("E", 1000, 6),
        ("m", 1000, 0),
    ];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || digits.len() > 18 || part.contains('.') {
        return None;
    }
    let amount: u128 = digits.parse().ok()?;
    let below = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let factor: u128 = match suffix {
        "" => 1000,
        "m" => 1,
        _ => match SUFFIXES.iter().find(|(known, _, _)| *known == suffix) {
            Some((_, base, exponent)) => u128::from(*base).pow(*exponent) * 1000,
            None => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let plain = exponent.strip_prefix('+').unwrap_or(exponent);
                let exponent = plain.parse::<u32>().ok().filter(|_| !plain.starts_with('+'))?;
                (exponent <= 15).then(|| 10_u128.pow(exponent) * 1000)?
            }
        },
    };
    Some(amount.checked_mul(factor)?.div_ceil(below))
}

/// `http://HOST:PORT[/PATH]` or `grpc://HOST:PORT`.
///
/// # Errors
/// The text has another scheme, or no host or port.
pub fn collector(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is not http://HOST:PORT or grpc://HOST:PORT");
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("grpc://"));
    let address = rest.ok_or_else(wrong)?.split('/').next().unwrap_or_default();
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let valid = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    if valid && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(wrong())
    }
}

/// Names with commas between them.
pub(super) fn headers(text: &str) -> Result<String, String> {
    leno_model::shown_header::names(text).map(|names| names.join(","))
}

/// `0%` to `100%`.
///
/// # Errors
/// The text is not a number with `%`, or out of range.
pub fn share(text: &str) -> Result<String, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a share from 0% to 100%")),
    }
}
