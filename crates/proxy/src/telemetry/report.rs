//! What is counted and logged of connections. Every ending is reported once, here.

use super::labels::Direction;
use super::recorder::Recorder;
use crate::refusal::Refusal;
use leno_tls::Refused;
use std::net::SocketAddr;

/// Mutual TLS failed: the reason goes to metric and log.
pub fn tls_refused(
    recorder: &Recorder,
    direction: Direction,
    address: SocketAddr,
    refused: &Refused,
) {
    recorder.tls_refused(direction, refused.as_str());
    tracing::warn!(
        direction = direction.as_str(),
        %address,
        reason = refused.as_str(),
        "mutual TLS refused: {refused}"
    );
}

/// A connection has ended.
pub fn connection_ended(
    recorder: &Recorder,
    direction: Direction,
    (client, target): (SocketAddr, SocketAddr),
    ended: &Refusal,
) {
    let shown = ended.ending.shown();
    recorder.ended(direction, ended.ending);
    let denial = ended.denial.map(|id| id.to_string());
    // The level is data here, and tracing wants it constant: three levels are in use.
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                direction = direction.as_str(),
                %client,
                %target,
                ending = shown.flag,
                denial = denial.as_deref(),
                "connection ended: {}",
                ended.text()
            )
        };
    }
    match shown.level {
        tracing::Level::ERROR => tell!(error),
        tracing::Level::WARN => tell!(warn),
        tracing::Level::INFO => tell!(info),
        _ => tell!(debug),
    }
}
