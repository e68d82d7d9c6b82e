//! The process's own figures, under the names that every Prometheus client uses.

use super::text::{head, sample};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes the kernel's figures; a missing figure is omitted.
pub(super) fn write(text: &mut String, started: SystemTime) {
    head(
        text,
        "proxy_build_info",
        "gauge",
        "Always 1; the labels are the version and vendor of this build.",
    );
    let version = format!("version=\"{}\",vendor=\"leno\"", env!("CARGO_PKG_VERSION"));
    sample(text, "proxy_build_info", &version, 1);
    let mut figure = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            head(text, name, kind, help);
            sample(text, name, "", value);
        }
    };
    let cpu = getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| {
        (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1_000_000.0
    });
    figure("process_cpu_seconds_total", "counter", "User and system CPU time in seconds.", cpu);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    figure(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory in bytes.",
        kibibytes(&status, "VmRSS:").map(|kib| kib * 1024.0),
    );
    figure(
        "process_virtual_memory_bytes",
        "gauge",
        "Virtual memory in bytes.",
        kibibytes(&status, "VmSize:").map(|kib| kib * 1024.0),
    );
    figure("process_threads", "gauge", "Threads of the process.", kibibytes(&status, "Threads:"));
    // Reading the directory opens one of its own.
    let open = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() - 1);
    figure("process_open_fds", "gauge", "Open file descriptors.", open.map(|count| count as f64));
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft as f64);
    figure("process_max_fds", "gauge", "Limit on open file descriptors.", limit);
    let since = started.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
    figure(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process, in seconds since 1970.",
        since,
    );
}

/// The number behind a key of `/proc/self/status`.
fn kibibytes(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}
