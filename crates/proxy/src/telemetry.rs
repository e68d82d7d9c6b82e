//! Metrics and access log.
//!
//! - [`labels`]: what a series is about; names and values as linkerd writes them.
//! - [`recorder`]: one per data thread; counting takes neither a lock nor an atomic read-modify-write.
//! - [`series`]: the numbers behind one set of labels.
//! - [`registry`]: all series of all threads, summed at scrape.
//! - [`report`]: the end of a connection, in metric and log.
//! - [`exposition`]: the registry as Prometheus text; [`text`] writes its lines.
//! - [`process`]: the process's own figures.
//! - [`access_log`]: one line per request, off by default.
//!
//! No label value is under a client's control: no host, no path, no server name that was asked for.

pub mod access_log;
pub mod exposition;
pub mod histogram;
pub mod labels;
pub mod process;
pub mod recorder;
pub mod registry;
pub mod report;
pub mod series;
pub mod text;

pub use labels::{
    AuthzLabels, Direction, HttpLabels, NoTls, PeerSide, TcpLabels, TlsLabel, Transport,
};
pub use recorder::Recorder;
pub use registry::Registry;
pub use series::{Counter, EjectionSeries, EndpointsGauge, HttpSeries, RetrySeries, TcpSeries};
