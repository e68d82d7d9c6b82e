//! `cargo xtask instructions`: what a request costs each proxy, in instructions, against `budgets.toml`.
//!
//! A real pair of proxies with mutual TLS between them, built as a release is, both under valgrind's callgrind, with a client and
//! a server in lockstep. It is a benchmark, not a timed test: run to run its figures differ by less than 1 %, whatever else the machine
//! does, and `make test` fails when one has grown by more than the tolerance.
//!
//! What it does not count: the kernel's work, which is most of a request's time, and what batching saves under load. A figure that
//! falls here and not in `leno bench` has made nothing faster.
//!
//! [`callgrind`] runs and asks the proxies, [`drive`] makes the requests ([`grpc`] those of HTTP/2), [`annotate`] says where the
//! instructions are. [`collector`] takes the spans where traces are on.

use crate::budgets::Budgets;
use crate::budgets::draft::Draft;
use crate::command;
use anyhow::{Context as _, Result, bail, ensure};
use callgrind::Callgrind;
use drive::{Drive, GRPC_PORT, HTTP1_PORT, RULES_PORT, TCP_PORT};
use leno_tests::binaries;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Running;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod annotate;
mod callgrind;
mod collector;
mod drive;
mod grpc;

/// The pods, and what their proxies are to a request.
const SIDES: [(&str, &str); 2] = [("client", "outbound"), ("server", "inbound")];

/// Exchanges that nobody counts: they open connections and bring pools and buffers to life.
const WARM_UP: u32 = 100;

/// Something that is asked of the proxies again and again.
struct Exchange {
    /// Its name here and in `budgets.toml`.
    name: &'static str,
    what: &'static str,
    start: fn(&Mesh) -> Result<Drive>,
    /// How often in a round: enough that timers and the edges of counting are nothing.
    count: u32,
    /// Part of every run; the others are run by name.
    is_usual: bool,
}

/// Each exchange is counted so often, and the lowest count stands: what disturbs a round, as a program that takes the core away
/// between two writes, adds to it.
const ROUNDS: usize = 3;

static EXCHANGES: [Exchange; 6] = [
    Exchange {
        name: "http1",
        what: "GET, connection kept",
        start: drive::http1,
        count: 1000,
        is_usual: true,
    },
    Exchange {
        name: "connection",
        what: "GET, a connection each",
        start: drive::http1_connections,
        count: 300,
        is_usual: true,
    },
    Exchange {
        name: "crowd",
        what: "GET, 8 at once",
        start: drive::http1_crowd,
        count: 1000,
        is_usual: true,
    },
    Exchange { name: "grpc", what: "gRPC, unary", start: drive::grpc, count: 1000, is_usual: true },
    Exchange {
        name: "rules",
        what: "GET, 1,000 access rules",
        start: drive::rules,
        count: 1000,
        is_usual: false,
    },
    Exchange {
        name: "tcp",
        what: "16 KiB there and back",
        start: drive::tcp,
        count: 300,
        is_usual: true,
    },
];

/// What was asked for on the command line.
#[derive(Default)]
struct Request {
    /// Notes what is measured as the new figures.
    write: bool,
    /// Shows where the instructions are.
    annotate: bool,
    /// The everyday build is there.
    built: bool,
    /// This process and all it starts have one core to themselves.
    on_one_core: bool,
    /// Share of the requests that are traced; such figures are shown beside the budget, and not judged.
    traced: Option<String>,
    /// Only these exchanges.
    only: Vec<String>,
}

impl Request {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut request = Self::default();
        for word in words {
            match *word {
                "--write" => request.write = true,
                "--annotate" => request.annotate = true,
                "--built" => request.built = true,
                "--on-one-core" => request.on_one_core = true,
                word if word.starts_with("--traced=") => {
                    request.traced = word.strip_prefix("--traced=").map(str::to_owned);
                }
                name if EXCHANGES.iter().any(|exchange| exchange.name == name) => {
                    request.only.push(name.to_owned());
                }
                word => bail!(
                    "{word}? cargo xtask instructions [--annotate] [--write] [--traced=1%] [{}]",
                    EXCHANGES.each_ref().map(|exchange| exchange.name).join("] [")
                ),
            }
        }
        Ok(request)
    }

    fn wants(&self, exchange: &Exchange) -> bool {
        match self.only.as_slice() {
            [] => exchange.is_usual,
            named => named.iter().any(|name| name == exchange.name),
        }
    }
}

/// Builds, counts and prints.
///
/// # Errors
/// When a figure has grown by more than the tolerance, or something did not work.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let request = Request::parse(words)?;
    binaries::require_root()?;
    if !request.on_one_core {
        build(&request)?;
        return command::run(&mut on_one_core(words)?);
    }
    let target = command::target_directory()?;
    binaries::use_profile(target.join("debug"));
    let profiles = target.join("instructions");
    fs::create_dir_all(&profiles)?;
    let counted = count(&request, &target.join("profiling/leno-proxy"), &profiles)?;
    if request.annotate {
        for figure in &counted {
            annotate::print(figure)?;
        }
    }
    judge(&counted, &request)
}

/// The proxy as it is released, but with its symbols; and what runs beside it, as it is built every day.
fn build(request: &Request) -> Result<()> {
    let words = ["build", "--locked", "--profile", "profiling", "--package", "leno-proxy"];
    command::step(&mut command::cargo(&words))?;
    if request.built {
        return Ok(());
    }
    let words = ["build", "--locked", "--package", "leno-proxy", "--package", "leno-control"];
    command::step(&mut command::cargo(&words))
}

/// This program again, with all it will start on one core, where nobody is interrupted by whom it wakes.
///
/// On two cores, whether a proxy finds one or two writes of its peer when it looks is a race, and gRPC's figures differ by 4 %.
fn on_one_core(words: &[&str]) -> Result<Command> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let core = (0..CpuSet::count()).find(|core| allowed.is_set(*core).unwrap_or(false));
    let mut command = Command::new("chrt");
    command.args(["--batch", "0", "taskset", "--cpu-list"]);
    command.arg(core.context("this process may run on no core")?.to_string());
    command.arg(std::env::current_exe()?).arg("instructions").args(words).arg("--on-one-core");
    Ok(command)
}

/// What one proxy executed for one exchange, in its best round.
struct Counted {
    exchange: &'static Exchange,
    side: &'static str,
    /// Instructions for each.
    each: f64,
    /// For `callgrind_annotate`.
    profile: PathBuf,
}

fn count(request: &Request, program: &Path, profiles: &Path) -> Result<Vec<Counted>> {
    let callgrind = Callgrind::new(program)?;
    let plan = SIDES.iter().fold(Plan::new(), |plan, (pod, _)| {
        let plan = plan.pod(pod).proxy_command(callgrind.command(pod));
        let variables = request.traced.iter().flat_map(|rate| collector::variables(rate));
        variables.fold(plan, |plan, (name, value)| plan.proxy_env(name, &value))
    });
    let mesh = plan
        .service("server", [HTTP1_PORT, GRPC_PORT, TCP_PORT, RULES_PORT], &["server"])
        .app_protocol(TCP_PORT, "linkerd.io/opaque")
        .try_start("instructions", Meshed::Yes)?;
    let say = |words: &str| {
        SIDES.iter().try_for_each(|(pod, _)| callgrind.say(pod, proxy(&mesh, pod)?, words))
    };
    collector::start(&mesh)?;
    drive::serve(&mesh.pod("server").namespace)?;
    say("instrumentation on")?;
    let mut counted = Vec::new();
    for exchange in EXCHANGES.iter().filter(|exchange| request.wants(exchange)) {
        let name = exchange.name;
        let mut drive = (exchange.start)(&mesh).with_context(|| format!("{name} begins"))?;
        drive(WARM_UP).with_context(|| format!("{name} warms up"))?;
        say("zero")?;
        let mut lowest = SIDES.map(|_| None);
        for round in 0..ROUNDS {
            drive(exchange.count).with_context(|| format!("{name} is counted"))?;
            for ((pod, side), lowest) in SIDES.into_iter().zip(&mut lowest) {
                let profile = profiles.join(format!("{name}.{side}.{round}.callgrind"));
                let total = callgrind.counted(pod, proxy(&mesh, pod)?, &profile)?;
                let each = total as f64 / f64::from(exchange.count);
                if lowest.as_ref().is_none_or(|lowest: &Counted| each < lowest.each) {
                    *lowest = Some(Counted { exchange, side, each, profile });
                }
            }
        }
        counted.extend(lowest.into_iter().flatten());
    }
    passed_through_the_mesh(&mesh)?;
    Ok(counted)
}

fn proxy<'m>(mesh: &'m Mesh, pod: &str) -> Result<&'m Running> {
    mesh.pod(pod).proxy().with_context(|| format!("{pod} has no proxy"))
}

/// Proof that what was counted is what is meant: mutual TLS between the two, and no request without it.
fn passed_through_the_mesh(mesh: &Mesh) -> Result<()> {
    for (pod, direction) in SIDES {
        let metrics = mesh.pod(pod).metrics();
        let with_tls = [("direction", direction), ("tls", "true")];
        ensure!(
            metrics.sum("tcp_open_total", &with_tls) > 0.0
                && metrics.sum("request_total", &with_tls)
                    == metrics.sum("request_total", &with_tls[..1]),
            "the proxy of {pod} spoke without TLS:\n{}{}",
            metrics.about("tcp_open_total"),
            metrics.about("request_total")
        );
    }
    Ok(())
}

/// Prints old beside new, and fails over budget.
fn judge(counted: &[Counted], request: &Request) -> Result<()> {
    let write = request.write && request.traced.is_none();
    let budgets = Budgets::read()?;
    let mut draft = Draft::read()?;
    let tolerance = budgets.required("instructions", "tolerance")?;
    let mut grown = Vec::new();
    println!(
        "\nInstructions of one exchange, without the kernel's (tolerance {:.0} %)\n",
        tolerance * 100.0
    );
    println!(
        "{:<26}{:<10}{:>10}{:>10}{:>9}{:>10}",
        "EXCHANGE", "PROXY", "OLD", "NEW", "CHANGE", "BUDGET"
    );
    for Counted { exchange: Exchange { name, what, .. }, side, each: new, .. } in counted {
        let section = format!("instructions.{name}");
        let old = budgets.required(&section, side)?;
        let verdict = guarded(old, *new, tolerance);
        let change = format!("{:+.1} %", (new / old - 1.0) * 100.0);
        let said = match verdict {
            Guarded::Same => "",
            Guarded::Grown => "  OVER BUDGET",
            Guarded::Shrunk => "  lower: write it down",
        };
        let budget = old * (1.0 + tolerance);
        println!("{what:<26}{side:<10}{old:>10.0}{new:>10.0}{change:>9}{budget:>10.0}{said}");
        if verdict == Guarded::Grown {
            grown.push(format!("{what}, {side}: {new:.0} instructions, at most {budget:.0}"));
        }
        if write {
            draft.set(&section, side, *new, 0)?;
        }
    }
    println!(
        "\nWhere they are: cargo xtask instructions --annotate. To write the new figures down: --write."
    );
    if write {
        return draft.save();
    }
    if let Some(rate) = &request.traced {
        println!("Not judged: {rate} of the requests were traced.");
        return Ok(());
    }
    if !cfg!(target_arch = "x86_64") {
        println!(
            "Not judged: the old figures are those of x86-64, and this processor executes others."
        );
        return Ok(());
    }
    ensure!(grown.is_empty(), "over budget:\n{}", grown.join("\n"));
    Ok(())
}

/// How a figure stands to the last one that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarded {
    /// Within the tolerance.
    Same,
    /// Above it: the change that did this says so, or is mended.
    Grown,
    /// Below it: worth writing down, or it will be lost unnoticed.
    Shrunk,
}

/// Compares a figure with the last one. `tolerance` is a share of that, as 0.03.
fn guarded(last: f64, new: f64, tolerance: f64) -> Guarded {
    if new > last * (1.0 + tolerance) {
        Guarded::Grown
    } else if new < last * (1.0 - tolerance) {
        Guarded::Shrunk
    } else {
        Guarded::Same
    }
}

#[cfg(test)]
mod tests {
    use super::{Guarded, guarded};

    #[test]
    fn figures_are_guarded() {
        //    last   new    tolerance
        check(100.0, 100.0, 0.03, Guarded::Same);
        check(100.0, 103.0, 0.03, Guarded::Same);
        check(100.0, 103.1, 0.03, Guarded::Grown);
        check(100.0, 200.0, 0.03, Guarded::Grown);
        check(100.0, 97.0, 0.03, Guarded::Same);
        check(100.0, 96.9, 0.03, Guarded::Shrunk);
        check(100.0, 0.0, 0.03, Guarded::Shrunk);
        check(100.0, 100.1, 0.0, Guarded::Grown);
    }

    #[track_caller]
    fn check(last: f64, new: f64, tolerance: f64, expected: Guarded) {
        assert_eq!(guarded(last, new, tolerance), expected, "{new} after {last}");
    }
}
