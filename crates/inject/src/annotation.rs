//! The vocabulary by which a pod, or its namespace for all of its pods, configures the proxy.
//!
//! Every name is in one table, [`VOCABULARY`], with what its value may be. What is not in it, or not understood, is a mistake
//! that names the annotation and the nearest known name: a typo must not be silent.

pub mod value;

use std::collections::BTreeMap;
use value::{duration_seconds, one_of};

/// What our configuration begins with; the first wins.
pub const PREFIXES: [&str; 2] = ["config.leno.dev/", "leno.dev/"];
/// What linkerd's begins with. Names that mean the same are read, others are left alone with a word.
pub const LINKERD_PREFIX: &str = "config.linkerd.io/";
/// Whether a pod is part of the mesh: label or annotation, `enabled` or `disabled`.
pub const INJECT: &str = "leno.dev/inject";
/// linkerd's annotation for the same.
pub const LINKERD_INJECT: &str = "linkerd.io/inject";
/// By this the control plane knows that a pod has a proxy. Written by us alone.
pub const MESHED: &str = "leno.dev/meshed";
/// Fields that were empty before us, as JSON, so that they are left as they were. Written by us alone.
pub const WAS: &str = "leno.dev/was";

#[derive(Debug)]
pub struct Word {
    /// Without prefix.
    pub name: &'static str,
    /// What it does, for people.
    pub meaning: &'static str,
    /// Where its value goes.
    pub to: To,
    /// Whether linkerd has the name with this meaning.
    pub linkerd: bool,
    read: fn(&str) -> Result<String, String>,
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To the proxy, by this variable.
    Variable(&'static str),
    /// To the control plane, which reads the annotation itself.
    Control,
    /// The proxy's image.
    Image,
    /// When the image is fetched.
    PullPolicy,
    /// `requests` or `limits`, of `cpu` or `memory`.
    Resource(&'static str, &'static str),
}

/// The variable that says how long a proxy may finish after SIGTERM.
pub const DRAIN: &str = "LENO_PROXY_DRAIN_SECONDS";

const fn word(
    name: &'static str,
    linkerd: bool,
    to: To,
    read: fn(&str) -> Result<String, String>,
    meaning: &'static str,
) -> Word {
    Word { name, meaning, to, linkerd, read }
}

/// Every name.
#[rustfmt::skip]
pub const VOCABULARY: &[Word] = &[
    word("skip-inbound-ports", true, To::Variable("LENO_PROXY_SKIP_INBOUND_PORTS"), value::ports,
        "ports of the application that bypass the proxy, by number, range or name, `25,1000-2000,mysql`"),
    word("skip-outbound-ports", true, To::Variable("LENO_PROXY_SKIP_OUTBOUND_PORTS"), value::ports,
        "ports of other hosts, `5432,6379`; connections to them bypass the proxy"),
    word("skip-subnets", true, To::Variable("LENO_PROXY_SKIP_SUBNETS"), value::networks,
        "CIDRs, `10.1.0.0/16`; connections to them bypass the proxy"),
    word("opaque-ports", true, To::Control, value::ports,
        "ports of the application, by number, range or name, `5432,9000-9010`, that the proxy forwards as bytes without detection"),
    word("default-inbound-policy", true, To::Control, policy,
        "which clients may connect: `all-unauthenticated`, `all-authenticated` or `deny`"),
    word(MINIMUM_POLICY, false, To::Control, policy,
        "on a Namespace only: `deny`, `all-authenticated` or another inbound policy, which pods and Servers of the namespace cannot loosen"),
    word("proxy-require-identity-inbound-ports", true, To::Control, value::ports,
        "ports without a Server that only clients with an identity may reach, by number, range or name, `5432,9000-9010`"),
    word("proxy-log-level", true, To::Variable("LENO_PROXY_LOG"), value::log_level,
        "`info`, or `warn,leno_proxy::balance=debug`"),
    word("proxy-log-format", true, To::Variable("LENO_PROXY_LOG_FORMAT"), log_format,
        "`plain` or `json`"),
    word("access-log", true, To::Variable("LENO_PROXY_ACCESS_LOG"), access_log,
        "`off`, `json` or `apache`; to the proxy's standard output"),
    word("access-log-headers", false, To::Variable("LENO_PROXY_ACCESS_LOG_HEADERS"), value::headers,
        "request headers in the JSON access log, `x-request-id,x-tenant`; headers that carry secrets are refused"),
    word("access-log-sampling-rate", false, To::Variable("LENO_PROXY_ACCESS_LOG_SAMPLING_RATE"), value::share,
        "share of the requests in the access log, `10%`; requests that failed are always logged"),
    word("metrics", false, To::Variable("LENO_PROXY_METRICS"), metrics,
        "series that Prometheus gets from the proxy: `lean` (default), at most 300 with 20 peers, or `full`"),
    word("tracing-collector", false, To::Variable("LENO_PROXY_TRACING_COLLECTOR"), value::collector,
        "receiver of traces, `http://otel.obs:4318` (OTLP over HTTP) or `grpc://otel.obs:4317`; tracing is off without it"),
    word("tracing-sampling-rate", false, To::Variable("LENO_PROXY_TRACING_SAMPLING_RATE"), value::share,
        "share of the traces that begin in the mesh and are kept, `1%`"),
    word("tracing-parent-based-sampling", false, To::Variable("LENO_PROXY_TRACING_PARENT_BASED_SAMPLING"), truth,
        "`true` (default): the decision in the headers of a request holds"),
    word("proxy-workers", false, To::Variable("LENO_PROXY_WORKERS"), workers,
        "threads that carry traffic, `2`; at most 256"),
    word("concurrency-limit", false, To::Variable("LENO_PROXY_CONCURRENCY_LIMIT"), concurrency,
        "requests that the application gets at the same time: `off`, a number, or `auto` (found by latency)"),
    word("inherit-deadlines", false, To::Variable("LENO_PROXY_INHERIT_DEADLINES"), truth,
        "`true` (default): requests of the application have no more time than the request of the same trace that it serves"),
    word("shutdown-grace-period", true, To::Variable(DRAIN), grace,
        "how long the proxy may drain, `30s`, `2m`"),
    word("fail", false, To::Variable("LENO_PROXY_FAIL"), fail,
        "`closed`, or `open`: while the control plane is away, traffic without configuration passes as without a mesh"),
    word("http2-upgrade", false, To::Control, truth,
        "`true` for a pod with linkerd's proxy instead of ours: other linkerd proxies then send HTTP/1 to it inside HTTP/2"),
    word("proxy-image", false, To::Image, value::image, "the proxy's image, with its tag or digest, `registry.example/leno-proxy:0.1.0`"),
    word("image-pull-policy", true, To::PullPolicy, pull_policy,
        "`Always`, `IfNotPresent` or `Never`"),
    word("proxy-cpu-request", true, To::Resource("requests", "cpu"), value::request,
        "CPU request, `100m`"),
    word("proxy-cpu-limit", true, To::Resource("limits", "cpu"), value::quantity,
        "CPU limit, `500m`"),
    word("proxy-memory-request", true, To::Resource("requests", "memory"), value::request,
        "memory request, `16Mi`"),
    word("proxy-memory-limit", true, To::Resource("limits", "memory"), memory_limit,
        "memory limit, `8Mi` or more"),
];

/// What only a Namespace can say.
const MINIMUM_POLICY: &str = "minimum-inbound-policy";

/// Lists of the application's own ports, which may be given by the names that its containers give them.
const BY_NAME: [&str; 3] =
    ["skip-inbound-ports", "opaque-ports", "proxy-require-identity-inbound-ports"];

fn policy(text: &str) -> Result<String, String> {
    value::policy(text).map(|_| text.to_owned())
}

fn log_format(text: &str) -> Result<String, String> {
    one_of(text, &["plain", "json"])
}

fn access_log(text: &str) -> Result<String, String> {
    one_of(text, &["off", "json", "apache"])
}

fn metrics(text: &str) -> Result<String, String> {
    one_of(text, &["lean", "full"])
}

fn fail(text: &str) -> Result<String, String> {
    one_of(text, &["closed", "open"])
}

fn truth(text: &str) -> Result<String, String> {
    one_of(text, &["true", "false"])
}

fn pull_policy(text: &str) -> Result<String, String> {
    one_of(text, &["Always", "IfNotPresent", "Never"])
}

fn workers(text: &str) -> Result<String, String> {
    match text.parse::<u16>() {
        Ok(1..=256) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a number from 1 to 256")),
    }
}

fn concurrency(text: &str) -> Result<String, String> {
    match (text, text.parse::<u32>()) {
        ("auto" | "off", _) | (_, Ok(1..=1_000_000)) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not one of auto, off, or a number from 1 to 1000000")),
    }
}

fn grace(text: &str) -> Result<String, String> {
    duration_seconds(text, 86_400).map(|seconds| seconds.to_string())
}

/// With less than this no container of ours starts: the kernel ends it before the proxy's first line, without a word that names the limit.
pub const MEMORY_LIMIT_MIN: &str = "8Mi";

fn memory_limit(text: &str) -> Result<String, String> {
    let limit = value::quantity(text)?;
    if value::millis(text) < value::millis(MEMORY_LIMIT_MIN) {
        return Err(format!(
            "{text:?} is less than {MEMORY_LIMIT_MIN}, the least that a proxy needs to start"
        ));
    }
    Ok(limit)
}

/// What a container asks for, as Kubernetes writes quantities; `None` asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Processor time that is set aside.
    pub cpu_request: Option<String>,
    /// Processor time at most.
    pub cpu_limit: Option<String>,
    /// Memory that is set aside.
    pub memory_request: Option<String>,
    /// Memory at most.
    pub memory_limit: Option<String>,
}

/// What annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
    /// What was left alone, in sentences.
    pub warnings: Vec<String>,
}

impl Settings {
    /// The value under a name of [`VOCABULARY`].
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Takes over what the mesh as a whole says, where neither the pod nor its namespace says otherwise.
    pub(crate) fn fill(&mut self, mesh: &Self) {
        for (name, value) in &mesh.values {
            self.values.entry(name).or_insert_with(|| value.clone());
        }
    }

    /// Variables for the proxy, in the order of [`VOCABULARY`].
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        VOCABULARY.iter().filter_map(|word| match word.to {
            To::Variable(variable) => Some((variable, self.get(word.name)?)),
            _ => None,
        })
    }

    /// What the proxy asks for, over what the mesh says. Where the mesh's request is greater than the pod's limit, or its limit less than the
    /// pod's request, the mesh's gives way: the API server would refuse the pod.
    #[must_use]
    pub fn resources(&self, mesh: &Resources) -> Resources {
        let pair = |request: &str, limit: &str, usual: [&Option<String>; 2]| {
            let own = |name: &str| self.get(name).map(str::to_owned);
            let asked = own(request).or_else(|| usual[0].clone());
            let most = own(limit).or_else(|| usual[1].clone());
            match (&asked, &most) {
                (Some(more), Some(less)) if value::millis(more) > value::millis(less) => {
                    let said = own(limit).or(asked);
                    (said.clone(), said)
                }
                _ => (asked, most),
            }
        };
        let (cpu_request, cpu_limit) =
            pair("proxy-cpu-request", "proxy-cpu-limit", [&mesh.cpu_request, &mesh.cpu_limit]);
        let (memory_request, memory_limit) = pair(
            "proxy-memory-request",
            "proxy-memory-limit",
            [&mesh.memory_request, &mesh.memory_limit],
        );
        Resources { cpu_request, cpu_limit, memory_request, memory_limit }
    }
}

/// What an annotation may begin with for this name, the one that wins first.
pub fn prefixes(name: &str) -> impl Iterator<Item = &'static str> {
    let linkerd = VOCABULARY.iter().any(|word| word.linkerd && word.name == name);
    PREFIXES.into_iter().chain(linkerd.then_some(LINKERD_PREFIX))
}

/// Reads annotations of a pod over those of its namespace. `number_of` knows the pod's own ports by their names.
///
/// # Errors
/// Every mistake, one sentence each.
pub fn read<'a>(
    pod: impl IntoIterator<Item = (&'a str, &'a str)>,
    namespace: impl IntoIterator<Item = (&'a str, &'a str)>,
    number_of: &dyn Fn(&str) -> Option<u16>,
) -> Result<Settings, Vec<String>> {
    let (mut settings, mut wrong) = (Settings::default(), Vec::new());
    let for_all = |text: &str| value::own_ports(text, number_of, false);
    read_one(namespace, "of its namespace ", &for_all, &mut settings, &mut wrong);
    let mut own = Settings::default();
    let for_one = |text: &str| value::own_ports(text, number_of, true);
    read_one(pod, "", &for_one, &mut own, &mut wrong);
    settings.values.extend(own.values);
    settings.warnings.extend(own.warnings);
    for (request, limit) in
        [("proxy-cpu-request", "proxy-cpu-limit"), ("proxy-memory-request", "proxy-memory-limit")]
    {
        if let (Some(asked), Some(most)) = (settings.get(request), settings.get(limit))
            && value::millis(asked) > value::millis(most)
        {
            wrong.push(format!("{request} {asked} is greater than {limit} {most}"));
        }
    }
    if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
}

/// Settings of the mesh as a whole, by the names and with the values of annotations.
///
/// # Errors
/// Every mistake, one sentence each.
pub fn of_mesh<'a>(
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Settings, Vec<String>> {
    let (mut read, mut wrong) = (Settings::default(), Vec::new());
    for (name, text) in settings {
        let is_variable = |word: &&Word| word.name == name && matches!(word.to, To::Variable(_));
        match VOCABULARY.iter().find(is_variable).map(|word| (word.name, (word.read)(text))) {
            Some((name, Ok(value))) => drop(read.values.insert(name, value)),
            Some((_, Err(why))) => wrong.push(format!("{name}: {why}")),
            None => wrong.push(format!("{name} is not a setting of proxies")),
        }
    }
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

fn read_one<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    whose: &str,
    own_ports: &dyn Fn(&str) -> Result<String, String>,
    settings: &mut Settings,
    wrong: &mut Vec<String>,
) {
    // By name: how far down the list of prefixes its value was found.
    let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, text) in annotations {
        let Some((rank, name)) = rank(key) else { continue };
        let linkerd = rank == PREFIXES.len();
        let word = VOCABULARY.iter().find(|word| word.name == name && (word.linkerd || !linkerd));
        let Some(word) = word else {
            if linkerd {
                let warning = format!("annotation {whose}{key} has no effect in Leno");
                settings.warnings.push(warning);
            } else {
                wrong.push(format!("annotation {whose}{key} is not known{}", nearest(name)));
            }
            continue;
        };
        if word.name == MINIMUM_POLICY && whose.is_empty() {
            wrong.push(format!("annotation {key}: only a Namespace has a minimum policy"));
            continue;
        }
        let text = match text.trim() {
            // linkerd's way to say that there is none.
            "" if linkerd && name == "access-log" => "off",
            text => text,
        };
        let value = if BY_NAME.contains(&name) { own_ports(text) } else { (word.read)(text) };
        match value {
            // Its filters know more than levels, and what is logged opens nothing.
            Err(why) if linkerd && name == "proxy-log-level" => {
                settings.warnings.push(format!("annotation {whose}{key} is ignored: {why}"));
            }
            Err(why) => wrong.push(format!("annotation {whose}{key}: {why}")),
            Ok(value) if ranks.get(word.name).is_none_or(|before| rank < *before) => {
                ranks.insert(word.name, rank);
                settings.values.insert(word.name, value);
            }
            Ok(_) => {}
        }
    }
}

/// Which prefix an annotation has, and its name; `None` if it is not a configuration annotation.
fn rank(key: &str) -> Option<(usize, &str)> {
    if [INJECT, MESHED, WAS].contains(&key) {
        return None;
    }
    let prefixes = PREFIXES.iter().chain([&LINKERD_PREFIX]).enumerate();
    prefixes.into_iter().find_map(|(rank, prefix)| Some((rank, key.strip_prefix(prefix)?)))
}

/// `; did you mean …?`, where a known name is near.
fn nearest(name: &str) -> String {
    let known = VOCABULARY.iter().map(|word| (distance(name, word.name), PREFIXES[0], word.name));
    // The one name that says nothing about a proxy but whether there is one.
    let inject = INJECT
        .strip_prefix(PREFIXES[1])
        .map(|inject| (distance(name, inject), PREFIXES[1], inject));
    match known.chain(inject).min() {
        // A third of the letters may be wrong; a name without its `proxy-` is meant, too.
        Some((steps, prefix, known)) if steps * 3 <= known.len() => {
            format!("; did you mean {prefix}{known}?")
        }
        _ => match VOCABULARY.iter().find(|word| word.name.strip_prefix("proxy-") == Some(name)) {
            Some(word) => format!("; did you mean {}{}?", PREFIXES[0], word.name),
            None => String::new(),
        },
    }
}

/// Levenshtein's; long names are cut, so that nobody pays for a name of a megabyte.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (number, letter) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = number + 1;
        for (at, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
