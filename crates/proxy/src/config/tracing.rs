//! Where traces go, and which are kept.

use super::reader::Reader;
use crate::control_address::ControlAddress;
use crate::telemetry::trace::span::Sampling;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Where collectors take OTLP over HTTP.
const HTTP_PATH: &str = "/v1/traces";

/// Settings of tracing, where it is on.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    pub collector: Collector,
    pub sampling: Sampling,
}

/// A receiver of OTLP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Protobuf over HTTP/1, to this path.
    Http(ControlAddress, String),
    Grpc(ControlAddress),
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("grpc://") {
            return ControlAddress::parse(address.trim_end_matches('/')).map(Self::Grpc);
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(format!("{text:?} is not http://HOST:PORT or grpc://HOST:PORT"));
        };
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{text:?} has a path that is not valid"));
        }
        let path = if path.is_empty() { HTTP_PATH.to_owned() } else { format!("/{path}") };
        Ok(Self::Http(ControlAddress::parse(address)?, path))
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(address, path) => write!(f, "http://{address}{path}"),
            Self::Grpc(address) => write!(f, "grpc://{address}"),
        }
    }
}

/// Tracing is on where a collector is named.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Option<Tracing>> {
    let collector = reader.optional(
        "TRACING_COLLECTOR",
        "receiver of traces: http://HOST:PORT (OTLP over HTTP) or grpc://HOST:PORT; tracing is off without it",
        str::parse,
    );
    let rate = reader.with_default(
        "TRACING_SAMPLING_RATE",
        "1%",
        "share of the traces that begin here and are kept, 0% to 100%",
        percent,
    );
    let parent_based = reader.with_default(
        "TRACING_PARENT_BASED_SAMPLING",
        "true",
        "whether the decision in the headers of a request holds: true or false",
        |text| text.parse().map_err(|_| format!("{text:?} is not one of true, false")),
    );
    let slow = reader.with_default(
        "TRACING_SLOW_MILLISECONDS",
        "1000",
        "requests that take this time or longer are always kept",
        |text| super::number(text, 1, 3_600_000).map(Duration::from_millis),
    );
    let sampling = Sampling { rate: rate?, parent_based: parent_based?, slow: slow? };
    Some(collector?.map(|collector| Tracing { collector, sampling }))
}

/// `12.5%` as a share of 1.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is not a share from 0% to 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors() {
        let check = |text: &str, expected: Option<&str>| {
            let shown = text.parse::<Collector>().ok().map(|collector| collector.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        };
        check("http://otel.obs:4318", Some("http://otel.obs:4318/v1/traces"));
        check("http://10.0.0.1:4318/x/y", Some("http://10.0.0.1:4318/x/y"));
        check("grpc://otel.obs:4317", Some("grpc://otel.obs:4317"));
        for wrong in ["", "otel:4317", "https://otel:4318", "http://otel", "http://a:1/ b"] {
            check(wrong, None);
        }
    }

    #[test]
    fn shares() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(percent(text).ok(), expected, "{text}");
        };
        check("1%", Some(0.01));
        check("0.5%", Some(0.005));
        check("100%", Some(1.0));
        for wrong in ["1", "101%", "-1%", "%", "NaN%"] {
            check(wrong, None);
        }
    }
}
