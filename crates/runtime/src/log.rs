//! Logs: to stderr, plain or JSON, with a level per target that can be changed at run time.
//!
//! A line never waits for the reader of stderr, and one kind of line has a rate limit: see `lines.rs`.

mod lines;

use lines::Lines;
use std::str::FromStr;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-21T09:00:00.000000Z  INFO leno_proxy::app: ready`
    #[default]
    Plain,
    /// One JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "json" => Ok(Self::Json),
            _ => Err(format!("log format {text:?}: plain or json")),
        }
    }
}

/// Changes the level while the process runs.
#[derive(Clone, Debug)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

impl LevelHandle {
    /// Takes what `LENO_LOG` takes: `info`, or `warn,leno_proxy::discovery=debug`.
    ///
    /// # Errors
    /// The text is not a list of `level` and `target=level`; the level stays as it was.
    pub fn set(&self, level: &str) -> Result<(), String> {
        let targets = parse(level)?;
        self.0.reload(targets).map_err(|error| error.to_string())
    }

    /// The level in force.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }
}

/// Parses a level list.
///
/// # Errors
/// Names the text that is not understood.
pub fn parse(level: &str) -> Result<Targets, String> {
    // `Targets` takes a lone word for a target whose every line is wanted, so that `inof` would silence all others.
    for item in level.split(',').map(str::trim).filter(|item| !item.contains('=')) {
        if item.is_empty() || LevelFilter::from_str(item).is_err() {
            return Err(format!("log level {level:?}: {item:?} is no level"));
        }
    }
    Targets::from_str(level).map_err(|error| format!("log level {level:?}: {error}"))
}

/// Starts logging for the whole process.
///
/// # Errors
/// The level is not understood, or logging was started before.
pub fn start(level: &str, format: Format) -> Result<LevelHandle, String> {
    let (filter, handle) = reload::Layer::new(parse(level)?);
    let lines = match format {
        Format::Plain => fmt::layer().with_ansi(false).with_writer(Lines::new(format)).boxed(),
        Format::Json => {
            fmt::layer().json().flatten_event(true).with_writer(Lines::new(format)).boxed()
        }
    };
    Registry::default()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|error| error.to_string())?;
    Ok(LevelHandle(handle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_lists() {
        let check = |level: &str, valid: bool| assert_eq!(parse(level).is_ok(), valid, "{level}");
        check("info", true);
        check("off", true);
        check("warn,leno_proxy::discovery=debug", true);
        check("leno_proxy=trace", true);
        check("inof", false);
        check("info,leno_proxy=loud", false);
        check("", false);
    }
}
