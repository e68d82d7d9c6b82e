//! What a person sees: at most 100 columns, and no claim without its figure.

use super::figures::{Cost, Figures, Hop};
use super::town::{Load, Town};
use std::time::Duration;

const MEBIBYTE: f64 = 1024.0 * 1024.0;

pub(super) fn started(town: &Town) {
    println!("\nBookinfo runs on this machine: {}.", town.ready);
    println!(
        "Each pod is a network namespace with a proxy of its own; the programs know nothing of it.\n"
    );
    println!("    client ──▶ productpage ──┬──▶ details");
    println!("                             └──▶ reviews v1, v2, v3 ──▶ ratings\n");
}

pub(super) fn driving(rate: u32, seconds: u32) {
    println!("The client pod asks for the page {rate} times a second for {seconds} s …");
}

pub(super) fn load(load: &Load) {
    let [median, p95, p99] = load.milliseconds;
    println!(
        "  {} requests ({:.0}/s), {} failed: {}",
        load.sent, load.rate, load.failed, load.results
    );
    println!("  latency of the whole page: p50 {median:.1} ms, p95 {p95:.1} ms, p99 {p99:.1} ms\n");
}

pub(super) fn hops(traffic: &Figures) {
    println!("What passed through, by the identities that both sides proved (mutual TLS 1.3):\n");
    let title = "CLIENT ▶ SERVER";
    println!("  {title:<60} {:>8} {:>9} {:>8} {:>8}", "REQUESTS", "SUCCESS", "P50", "P99");
    let mut last = "";
    for ((client, server), hop) in &traffic.hops {
        if hop.requests() == 0.0 {
            continue;
        }
        if client != last {
            println!("  {client}");
            last = client;
        }
        println!("    ▶ {server:<56} {}", row(hop));
    }
    println!();
}

fn row(hop: &Hop) -> String {
    format!(
        "{:>8} {:>9} {:>8} {:>8}",
        hop.requests(),
        format!("{:.2} %", hop.success / hop.requests() * 100.0),
        bucket(hop.percentile(0.5)),
        bucket(hop.percentile(0.99)),
    )
}

/// Buckets are all that a histogram knows.
fn bucket((lower, upper): (f64, f64)) -> String {
    if lower == 0.0 {
        format!("<{upper} ms")
    } else if upper.is_finite() {
        format!("{lower}-{upper} ms")
    } else {
        format!(">{lower} ms")
    }
}

pub(super) fn costs(traffic: &Figures) {
    println!("What it cost, in the same time:\n");
    println!(
        "  {:<24} {:>16} {:>12} {:>16} {:>12}",
        "PROXY OF", "REQUESTS PASSED", "CPU", "CPU PER REQUEST", "MEMORY"
    );
    let mut all = Cost::default();
    for (workload, cost) in &traffic.proxies {
        all.requests += cost.requests;
        all.cpu_seconds += cost.cpu_seconds;
        all.memory_bytes += cost.memory_bytes;
        cost_row(workload, *cost);
    }
    cost_row(&format!("all {} proxies", traffic.proxies.len()), all);
    let control = traffic.control;
    println!(
        "  {:<24} {:>16} {:>12} {:>16} {:>12}",
        "control plane",
        "",
        seconds(control),
        "",
        memory(control)
    );
    println!(
        "\n  A proxy that wakes for each request needs more for it than one that is busy, and the machine's"
    );
    println!("  other work shows: `make bench` measures, side by side with its peers.");
    println!(
        "  These are not release builds: they lack most optimizations. `make release` builds those."
    );
}

fn cost_row(name: &str, cost: Cost) {
    println!(
        "  {name:<24} {:>16} {:>12} {:>16} {:>12}",
        cost.requests,
        seconds(cost),
        format!("{:.0} µs", cost.microseconds_per_request()),
        memory(cost)
    );
}

fn seconds(cost: Cost) -> String {
    format!("{:.2} s", cost.cpu_seconds)
}

fn memory(cost: Cost) -> String {
    format!("{:.1} MiB", cost.memory_bytes / MEBIBYTE)
}

pub(super) fn ended(left: &[String], took: Duration) {
    println!();
    if left.is_empty() {
        println!(
            "Ended, {:.0} s after the start: no process, interface, rule, mount or file is left.\n",
            took.as_secs_f64()
        );
        println!("To look around yourself:");
        println!("    sudo target/demo/leno up -f examples/bookinfo      # Ctrl-C ends it");
        println!(
            "    sudo target/demo/leno exec client -- curl -s http://productpage:9080/productpage"
        );
        println!(
            "    sudo target/demo/leno edges                        # and ps, stat -w, tap, logs"
        );
        println!(
            "    sudo target/demo/leno dashboard                    # the service graph, in a browser"
        );
    } else {
        println!("Ended, and these are left:");
        for thing in left {
            println!("  {thing}");
        }
    }
}
