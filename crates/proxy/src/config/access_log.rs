//! What the access log has, and which requests.

use super::reader::Reader;
use super::tracing::percent;
use crate::telemetry::access_log::Settings;
use crate::telemetry::shown_headers;

pub(super) fn read(reader: &mut Reader<'_>) -> Option<Option<Settings>> {
    let format = reader.with_default(
        "ACCESS_LOG",
        "off",
        "access log on standard output: off, json or apache",
        |text| {
            if text == "off" { Ok(None) } else { text.parse().map(Some) }
        },
    );
    let headers = reader.optional(
        "ACCESS_LOG_HEADERS",
        "request headers in the JSON access log, `x-request-id,x-tenant`; headers that carry secrets are refused",
        shown_headers::names,
    );
    let sampling = reader.with_default(
        "ACCESS_LOG_SAMPLING_RATE",
        "100%",
        "share of the requests in the access log, 0% to 100%; requests that failed are always logged",
        percent,
    );
    let (headers, sampling) = (headers?.unwrap_or_default(), sampling?);
    Some(format?.map(|format| Settings { format, headers, sampling }))
}
