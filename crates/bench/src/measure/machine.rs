//! Where it ran: what of the machine moves a latency, as far as it says.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each sleep is by which the timer's error is measured.
const SLEEP: Duration = Duration::from_micros(100);
/// How many: ten lie beyond the 99th percentile, and it takes a third of a second.
const SLEEPS: usize = 1_000;

/// The machine, by name: `cpu`, `cores`, `smt`, `memory_mib`, `kernel`, `governor`, `mitigations` (by vulnerability),
/// `cgroup` (`v1`, `v2`, `hybrid`, `none`), `clocksource`, `load_1m`, `swap_used_mib`, `steal_share` (since it was
/// started), `virtualised`, `timer_error_us` (`p50`, `p99`, `max`, `samples`: how late a sleep of 100 µs ends).
///
/// What the machine does not say is `null`. Takes about a third of a second.
#[must_use]
pub fn describe() -> BTreeMap<String, Value> {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let mib = |name: &str| kibibytes(&meminfo, name).map(|kibibytes| kibibytes / 1024);
    let swap_used = mib("SwapTotal").zip(mib("SwapFree")).map(|(all, free)| all - free);
    let load = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    [
        ("cpu", json!(field(&cpuinfo, "model name"))),
        ("cores", json!(std::thread::available_parallelism().ok().map(usize::from))),
        ("smt", json!(read("/sys/devices/system/cpu/smt/active").map(|text| text == "1"))),
        ("memory_mib", json!(mib("MemTotal"))),
        ("kernel", json!(read("/proc/sys/kernel/osrelease"))),
        ("governor", json!(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))),
        ("mitigations", json!(mitigations())),
        ("cgroup", json!(cgroup(&read("/proc/self/mountinfo").unwrap_or_default()))),
        (
            "clocksource",
            json!(read("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ),
        ("load_1m", json!(load)),
        ("swap_used_mib", json!(swap_used)),
        ("steal_share", json!(steal_share(&read("/proc/stat").unwrap_or_default()))),
        ("virtualised", json!(virtualised(&cpuinfo))),
        ("product", json!(read("/sys/class/dmi/id/product_name"))),
        ("timer_error_us", timer_error()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A file's text without the white space around it; nothing where it cannot be read.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(path)).ok().map(|text| text.trim().to_owned())
}

/// The first `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    field(meminfo, name)?.trim_end_matches("kB").trim().parse().ok()
}

/// Whether there is a machine underneath this one, as the processor says.
fn virtualised(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags").or_else(|| field(cpuinfo, "Features"))?;
    Some(flags.split(' ').any(|flag| flag == "hypervisor"))
}

/// What the kernel does about each weakness of the processor, those apart that do not concern it.
fn mitigations() -> BTreeMap<String, String> {
    let Ok(directory) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    directory
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?.trim().to_owned();
            let name = entry.file_name().into_string().ok()?;
            (text != "Not affected").then_some((name, text))
        })
        .collect()
}

/// Which cgroups are mounted.
fn cgroup(mountinfo: &str) -> &'static str {
    let kind = |line: &str| {
        line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next().map(str::to_owned))
    };
    let kinds: Vec<String> = mountinfo.lines().filter_map(kind).collect();
    let mounted = |name: &str| kinds.iter().any(|kind| kind == name);
    match (mounted("cgroup"), mounted("cgroup2")) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
}

/// Time taken away since the start, as a share of all.
fn steal_share(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // User, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
    let all: u64 = ticks.iter().take(8).sum();
    (all > 0 && ticks.len() >= 8).then(|| ticks[7] as f64 / all as f64)
}

/// How late short sleeps end, in microseconds.
fn timer_error() -> Value {
    let mut late: Vec<f64> = (0..SLEEPS)
        .map(|_| {
            let begun = Instant::now();
            std::thread::sleep(SLEEP);
            begun.elapsed().saturating_sub(SLEEP).as_secs_f64() * 1e6
        })
        .collect();
    late.sort_by(f64::total_cmp);
    let rounded = |microseconds: f64| (microseconds * 10.0).round() / 10.0;
    json!({
        "p50": rounded(late[SLEEPS / 2]),
        "p99": rounded(late[SLEEPS * 99 / 100]),
        "max": rounded(late[SLEEPS - 1]),
        "samples": SLEEPS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = describe();
        for name in ["cpu", "cores", "memory_mib", "kernel", "load_1m", "steal_share"] {
            assert!(!machine[name].is_null(), "{name}: {machine:?}");
        }
        assert!(
            machine["timer_error_us"]["max"].as_f64() >= machine["timer_error_us"]["p50"].as_f64()
        );
    }

    #[test]
    fn texts_of_the_kernel() {
        let v1 = "30 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";
        let v2 = "31 1 0:2 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
        let check = |mounts: &str, expected| assert_eq!(cgroup(mounts), expected, "{mounts}");
        check("", "none");
        check(v1, "v1");
        check(v2, "v2");
        check(&format!("{v1}\n{v2}"), "hybrid");
        assert_eq!(steal_share("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1"), Some(0.1));
        assert_eq!(steal_share("cpu  0 0 0 0"), None);
        assert_eq!(virtualised("flags\t\t: fpu hypervisor sse"), Some(true));
        assert_eq!(virtualised("flags : fpu"), Some(false));
        assert_eq!(kibibytes("MemTotal:       2048 kB\n", "MemTotal"), Some(2048));
    }
}
