//! Metrics, access log, taps and traces.
//!
//! - [`labels`]: what a series is about; names and values as linkerd writes them.
//! - [`recorder`]: one per data thread; counting takes neither a lock nor an atomic read-modify-write.
//! - [`series`]: the numbers behind one set of labels.
//! - [`registry`]: all series of all threads, summed at scrape.
//! - [`report`]: the end of a connection, in metric and log.
//! - [`detail`]: which labels a scrape shows.
//! - [`exposition`]: the registry as Prometheus text; [`text`] writes its lines, and [`openmetrics`]
//!   turns it into OpenMetrics.
//! - [`process`]: the process's own figures.
//! - [`observers`]: all that looks at single requests: [`access_log`] (off by default), [`tap`], [`trace`]. They read a
//!   [`request_summary`].
//!
//! No label value is under a client's control: no host, no path, no server name that was asked for.

pub mod access_log;
mod block;
pub mod detail;
pub mod exposition;
pub mod histogram;
pub mod labels;
pub mod observers;
pub mod openmetrics;
pub mod process;
pub mod recorder;
pub mod registry;
pub mod report;
pub mod request_summary;
pub mod series;
pub mod shown_headers;
pub mod tap;
pub mod text;
pub mod trace;

pub use labels::{
    AuthzLabels, Direction, HttpLabels, NoTls, PeerSide, TcpLabels, TlsLabel, Transport,
};
pub use recorder::Recorder;
pub use registry::Registry;
pub use series::{Counter, EjectionSeries, EndpointsGauge, HttpSeries, RetrySeries, TcpSeries};
