//! From turns to a table: ratios within a block first, then their median and range.

use super::{BLOCKS, CONNECTIONS, IDLE_CONNECTIONS, Memory, TURN, Turn};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;

/// The beds' places in every list here.
const NONE: usize = 0;
const LENO: usize = 1;
const HAPROXY: usize = 2;

/// What was promised first; `budgets.toml` has the last word where it has the key.
const IDLE_MIB_MAX: (&str, f64) = ("proxy_idle_rss_mib", 10.0);
const CONNECTION_KIB_MAX: (&str, f64) = ("proxy_connection_kib", 8.0);
const BINARY_MIB_MAX: (&str, f64) = ("proxy_binary_mib", 12.0);
const CPU_RATIO_MAX: (&str, f64) = ("proxy_cpu_haproxy_ratio", 0.70);

/// One turn of every bed under one load.
pub(super) struct Block {
    /// Which load.
    pub(super) load: &'static str,
    /// In the order of the beds.
    pub(super) turns: Vec<Turn>,
}

/// Everything measured.
pub(super) struct Report {
    binary_bytes: u64,
    machine: String,
    /// Of each bed, before any load.
    pub(super) memory: Vec<Memory>,
    /// KiB of each proxy of each bed, after all load.
    pub(super) after_load: Vec<Vec<u64>>,
    /// In the order they ran.
    pub(super) blocks: Vec<Block>,
}

impl Report {
    /// Begins with what needs no run: the size of the program.
    pub(super) fn new(program: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(program)
            .with_context(|| format!("{} is missing", program.display()))?;
        let busy = std::fs::read_to_string("/proc/loadavg")?;
        let busy: Vec<&str> = busy.split(' ').take(3).collect();
        let cores = std::thread::available_parallelism()?;
        let machine = format!("{cores} cores, load average at the start {}", busy.join(" "));
        Ok(Self {
            binary_bytes: metadata.len(),
            machine,
            memory: Vec::new(),
            after_load: Vec::new(),
            blocks: Vec::new(),
        })
    }

    /// All of it, as text.
    pub(super) fn table(&self, budgets: &Path) -> Result<String> {
        let budgets = std::fs::read_to_string(budgets).unwrap_or_default();
        let mut text = format!(
            "A pair of proxies with mutual TLS between them, beside a pair of HAProxys (one thread each).\n\
             {CONNECTIONS} kept-alive connections, GETs of 200 bytes; {BLOCKS} blocks in which none, leno and\n\
             haproxy take turns of {} s. Median (lowest to highest). This machine: {}.\n\n",
            TURN.as_secs(),
            self.machine
        );
        self.budgeted(&budgets, &mut text)?;
        self.loads(&mut text)?;
        Ok(text)
    }

    /// The figures that have a budget.
    fn budgeted(&self, budgets: &str, text: &mut String) -> Result<()> {
        row(text, ["figure", "leno", "haproxy", "budget", ""])?;
        let mut judged = |name: &str, leno: String, worst: f64, haproxy: String, budget| {
            let max = limit(budgets, budget);
            let verdict = if worst <= max { "PASS" } else { "over" };
            row(text, [name, &leno, &haproxy, &format!("<= {max:.2}"), verdict])
        };
        let memory = |bed: usize| self.memory.get(bed).context("each bed was measured");
        let mib = |pair: &[u64]| pair.iter().map(|kib| *kib as f64 / 1024.0).collect();
        let idle = [mib(&memory(LENO)?.idle), mib(&memory(HAPROXY)?.idle)];
        let [leno, haproxy] = idle.map(|pair: Vec<f64>| (pairwise(&pair, 1), largest(&pair)));
        judged("idle memory, MiB (out / in)", leno.0, leno.1, haproxy.0, IDLE_MIB_MAX)?;
        let [leno, haproxy] = [memory(LENO)?, memory(HAPROXY)?]
            .map(|memory| (pairwise(&memory.each, 2), largest(&memory.each)));
        let name = format!("one of {IDLE_CONNECTIONS} idle connections, KiB");
        judged(&name, leno.0, leno.1, haproxy.0, CONNECTION_KIB_MAX)?;
        let binary = self.binary_bytes as f64 / 1024.0 / 1024.0;
        let none = String::from("-");
        judged("program, stripped, MiB", format!("{binary:.2}"), binary, none, BINARY_MIB_MAX)?;
        for load in self.names() {
            let ratios = self.per_block(load, |turns| pair(&turns[LENO]) / pair(&turns[HAPROXY]));
            let name = format!("CPU per request {load}, x HAProxy");
            let one = String::from("1");
            judged(&name, spread(&ratios, 2), median(&ratios), one, CPU_RATIO_MAX)?;
        }
        Ok(())
    }

    /// The figures behind the ratios: of this machine and this hour.
    fn loads(&self, text: &mut String) -> Result<()> {
        writeln!(text)?;
        row(text, ["of this machine and hour", "leno", "haproxy", "none", ""])?;
        let mib = |bed: usize| {
            let pair = self.after_load.get(bed).context("each bed was measured")?;
            let pair: Vec<f64> = pair.iter().map(|kib| *kib as f64 / 1024.0).collect();
            anyhow::Ok(pairwise(&pair, 1))
        };
        row(text, ["memory after all load, MiB", &mib(LENO)?, &mib(HAPROXY)?, "-", ""])?;
        for load in self.names() {
            for (place, side) in ["client's", "server's"].into_iter().enumerate() {
                let cpu =
                    |bed: usize| spread(&self.per_block(load, |turns| turns[bed].cpu[place]), 0);
                let name = format!("CPU us/request {load}, {side}");
                row(text, [&name, &cpu(LENO), &cpu(HAPROXY), "-", ""])?;
            }
        }
        for load in self.names() {
            let rate = |bed: usize| spread(&self.per_block(load, |turns| turns[bed].rate), 0);
            let name = format!("answers/s {load}");
            row(text, [&name, &rate(LENO), &rate(HAPROXY), &rate(NONE), ""])?;
        }
        for load in self.names() {
            for (place, quantile) in ["p50", "p99"].into_iter().enumerate() {
                let latency = |bed: usize| {
                    let of = |turns: &[Turn]| {
                        turns[bed].latency.map_or(f64::NAN, |latency| latency[place])
                    };
                    spread(&self.per_block(load, of), 0)
                };
                if latency(NONE).contains("NaN") {
                    continue;
                }
                let name = format!("latency {load}, {quantile}, us");
                row(text, [&name, &latency(LENO), &latency(HAPROXY), &latency(NONE), ""])?;
            }
        }
        writeln!(
            text,
            "\nSaturated: wrk, one thread. Fixed rates: an open schedule of our own, evenly spaced over the same\n\
             connections; latency counts from when a request was due. CPU is each proxy's own user and system time."
        )?;
        Ok(())
    }

    /// The loads, each once, in the order they ran.
    fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for block in &self.blocks {
            if !names.contains(&block.load) {
                names.push(block.load);
            }
        }
        names
    }

    fn per_block(&self, load: &str, figure: impl Fn(&[Turn]) -> f64) -> Vec<f64> {
        let blocks = self.blocks.iter().filter(|block| block.load == load);
        blocks.map(|block| figure(&block.turns)).collect()
    }
}

/// CPU of both proxies together.
fn pair(turn: &Turn) -> f64 {
    turn.cpu.iter().sum()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn pairwise(values: &[f64], digits: usize) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:.digits$}")).collect();
    values.join(" / ")
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: &[f64]) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => f64::NAN,
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

fn spread(values: &[f64], digits: usize) -> String {
    let ordered = sorted(values);
    let (Some(low), Some(high)) = (ordered.first(), ordered.last()) else {
        return String::from("-");
    };
    format!("{:.digits$} ({low:.digits$} to {high:.digits$})", median(values))
}

/// `key = number` in the budgets, else the number said here.
fn limit(budgets: &str, (key, otherwise): (&str, f64)) -> f64 {
    let lines = budgets.lines().filter_map(|line| line.split('#').next()?.split_once('='));
    let mut found = lines.filter(|(name, _)| name.trim() == key);
    found.find_map(|(_, value)| value.trim().parse().ok()).unwrap_or(otherwise)
}

fn row(text: &mut String, cells: [&str; 5]) -> Result<()> {
    let [name, leno, haproxy, last, verdict] = cells;
    let line = format!("{name:<38} {leno:<24} {haproxy:<24} {last:<24} {verdict}");
    writeln!(text, "{}", line.trim_end())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{limit, median, spread};

    #[test]
    fn medians() {
        //    values                    shown
        check(&[3.0, 1.0, 2.0], "2.0 (1.0 to 3.0)");
        check(&[4.0, 1.0, 2.0, 3.0], "2.5 (1.0 to 4.0)");
        check(&[7.0], "7.0 (7.0 to 7.0)");
        check(&[], "-");
        assert!(median(&[]).is_nan());
    }

    #[track_caller]
    fn check(values: &[f64], shown: &str) {
        assert_eq!(spread(values, 1), shown);
    }

    #[test]
    fn budgets() {
        let text = "# ratios\n[proxy]\nproxy_binary_mib = 10 # stripped\nother = 3\n";
        assert_eq!(limit(text, ("proxy_binary_mib", 12.0)), 10.0);
        assert_eq!(limit(text, ("proxy_idle_rss_mib", 12.0)), 12.0);
    }
}
