//! Flags, with their help beside them.

mod authz;
mod check;
mod color;
mod dashboard;
mod describe;
#[cfg(test)]
mod documented;
mod explain;
mod help;
pub(crate) mod home;
mod install;
mod policy;
mod question;
mod tap;
mod traffic;
mod version;

pub(crate) use authz::Authz;
pub(crate) use check::{Check, Findings};
pub(crate) use color::Color;
pub(crate) use dashboard::Dashboard;
pub(crate) use describe::Describe;
pub(crate) use explain::{Explain, without_arrows};
pub(crate) use help::{command, tip};
pub(crate) use install::{Choice, Install, Manifest, Uninstall, Upgrade, Where};
pub(crate) use policy::{AccessPolicy, PolicyVerb, Simulate, Suggest, TreeFormat};
pub(crate) use tap::{Filters, Tap, TapFormat, Top};
pub(crate) use traffic::{
    Diagnostics, DiagnosticsVerb, Endpoints, Format, Logs, Policy, ProxyMetrics, Routes, Shown,
    Stat,
};
pub(crate) use version::{Form, Version, build};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Leno, a light service mesh: runs Kubernetes manifests on one machine, installs in a cluster, and shows the traffic of the mesh.
#[derive(Debug, Parser)]
#[command(name = "leno", version = version::text(), disable_help_subcommand = true)]
pub(crate) struct Args {
    /// A mesh on this machine: the directory with the files and the socket of `leno up` [env: LENO_STATE_DIR] [default: /run/leno]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Colours in the output: auto, always, never; auto is on terminals, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run manifests on this machine: a network namespace per pod, containers as processes, nothing left at the end
    Up(Up),
    /// End what `leno up` started
    Down,
    /// List pods, their addresses, identities and proxies
    Ps(Box<Shown>),
    /// Show what happened to the mesh: problems of objects, refused edits, restarts, rollouts; the newest is last
    Events(Box<Events>),
    /// Say what is wrong with manifests, as `leno up` and its control plane would, without starting anything
    Validate(Validate),
    /// Show traffic: requests, success, latency, TCP
    Stat(Box<Stat>),
    /// Show which workloads exchange traffic, with the identities of both sides
    Edges(Box<Shown>),
    /// Serve a page with the service graph on loopback: traffic, latency and mutual TLS between workloads, up to an hour back
    Dashboard(Box<Dashboard>),
    /// Show traffic by route: the requests that clients sent to each backend, success and latency
    Routes(Box<Routes>),
    /// Show requests while they pass: client, server, path, status, time, and the reason of a failure
    Tap(Box<Tap>),
    /// Show a live table of requests, by client, server, method and route or path
    Top(Box<Top>),
    /// Show what holds for a pod, a Service or a route: identity, policy, endpoints, routes, timeouts, and what is wrong
    Describe(Box<Describe>),
    /// Run a program inside a pod, with its network, files and processes; returns the program's exit code
    Exec(Exec),
    /// Print the logs of a pod's containers or of the control plane
    Logs(Box<Logs>),
    /// Say whether a client may send a request or connect to a server, by which rule, and which policy would allow it; exit code 0 is allowed, 1 denied, 2 no answer
    Explain(Box<Explain>),
    /// Show who may reach a workload: the rules of each of its ports, with the identities that they admit; and who did within the last hour
    Authz(Box<Authz>),
    /// Suggest an access policy from what reached workloads within the last hour, and try a policy on it before it is applied
    Policy(Box<AccessPolicy>),
    /// Show the configuration that proxies get from the control plane, and the metrics of both
    Diagnostics(Box<Diagnostics>),
    /// Add the proxy to the pods in manifests, as the injector in a cluster does: `leno inject app.yaml | kubectl apply -f -`
    Inject(Box<Inject>),
    /// Remove from manifests exactly what `leno inject` added
    Uninject(Manifests),
    /// Print the manifests of a new control plane: `leno install | kubectl apply -f -`
    Install(Box<Install>),
    /// Print the manifests of the cluster's installation, with this version or with new values: `leno upgrade | kubectl apply -f -`
    Upgrade(Box<Upgrade>),
    /// Print all objects of the mesh in a cluster: `leno uninstall | kubectl delete -f -`
    Uninstall(Uninstall),
    /// Measure: generate load, run scenarios, write reports
    Bench(crate::bench::Bench),
    /// Check the mesh in a cluster, or what this machine needs for `leno up`; for each error, the cause and a fix
    Check(Box<Check>),
    /// Print the versions of this program, and of the control plane and the proxies of a mesh
    Version(Version),
    /// Print a script that completes verbs and flags in a shell
    Completion(Completion),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Up {
    /// Manifests: files, or directories of *.yaml, *.yml and *.json; edits are applied while it runs
    #[arg(short = 'f', long = "file", required = true, value_name = "PATH", num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// The mesh of the pods
    #[arg(long, value_enum, default_value_t = Mesh::Leno)]
    pub(crate) mesh: Mesh,
    /// Continue in the background when everything is ready
    #[arg(long, short = 'd')]
    pub(crate) detach: bool,
    /// Time limit for pods to become ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) wait: u64,
    /// Print neither the output of containers nor progress
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Log level of leno itself: error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: String,
    /// The background half of --detach
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// Another program instead of leno-proxy; `leno bench` runs other meshes with it
    #[arg(long, hide = true, value_name = "PROGRAM")]
    pub(crate) sidecar: Option<String>,
    /// An argument for that program
    #[arg(
        long = "sidecar-arg",
        hide = true,
        value_name = "TEXT",
        requires = "sidecar",
        allow_hyphen_values = true
    )]
    pub(crate) sidecar_args: Vec<String>,
    /// That program needs no leno-control
    #[arg(long, hide = true, requires = "sidecar")]
    pub(crate) without_control: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Completion {
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Fish,
    Zsh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mesh {
    /// Every pod gets a proxy, except with the label or annotation `leno.dev/inject: disabled`
    Leno,
    /// No proxies
    None,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Exec {
    /// Pod by name, unique prefix of its name, or deploy/NAME; `namespace/` may come before
    #[arg(required_unless_present = "node")]
    pub(crate) pod: Option<String>,
    /// Container whose files and environment are used
    #[arg(short = 'c', long)]
    pub(crate) container: Option<String>,
    /// Enter the node's network instead of a pod: no proxy, access to every pod and Service
    #[arg(long, conflicts_with = "pod", conflicts_with = "container")]
    pub(crate) node: bool,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Events {
    /// Events of this namespace [default: in a cluster the namespace of the context, on one machine all]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Events of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: home::ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Validate {
    /// Manifests: files, directories of *.yaml, *.yml and *.json, or - for standard input
    #[arg(short = 'f', long = "file", required = true, value_name = "PATH", num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// End with 1 on warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// How to print
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Problems,
}

/// How problems are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Problems {
    /// One on each line
    #[default]
    Table,
    /// For programs; docs/cli.md is the contract
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Manifests {
    /// Manifests: files, directories of *.yaml, *.yml and *.json, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Read subdirectories too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inject {
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    /// Namespace of objects without a namespace
    #[arg(short = 'n', long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    /// Leave objects that cannot be part of the mesh unchanged, and continue
    #[arg(long)]
    pub(crate) ignore_refused: bool,
    /// No effect; accepted because linkerd has this flag
    #[arg(long)]
    pub(crate) manual: bool,
    /// Image of the proxy
    #[arg(long, value_name = "IMAGE")]
    pub(crate) proxy_image: Option<String>,
    /// When nodes pull it
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) image_pull_policy: Option<String>,
    /// Address of the control plane, HOST:PORT
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) control_address: Option<String>,
    /// Namespace of the control plane, which is not part of the mesh
    #[arg(long, value_name = "NAME", default_value = leno_inject::Mesh::NAMESPACE)]
    pub(crate) control_namespace: String,
    /// Trust domain of identities
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    pub(crate) trust_domain: String,
    /// ConfigMap with the roots, in each pod's namespace
    #[arg(long, value_name = "CONFIGMAP", default_value = leno_inject::Mesh::TRUST_ANCHORS)]
    pub(crate) trust_anchors: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn lines_that_people_type() {
        for line in [
            "leno up -f examples/bookinfo/",
            "leno up -f a.yaml b.yaml --mesh none --detach",
            "leno --state-dir /tmp/x ps -o json",
            "leno ps -w --state-dir /tmp/x",
            "leno stat -o json --window 0.5",
            "leno exec reviews -- curl -s http://ratings:9080/",
            "leno exec deploy/reviews -c app -- sh",
            "leno exec --node -- ip address",
            "leno logs reviews -f --proxy",
            "leno logs -n shop deploy/web -c app --tail 10 --since 5m --prefix",
            "leno logs -l app=web -A",
            "leno logs control --control-namespace mesh",
            "leno ps -A -o yaml --kubeconfig k --context c --as eve --as-group g",
            "leno stat deploy -n shop -t 10s -w",
            "leno stat svc/web -o json",
            "leno stat deploy web -o name",
            "leno edges -n shop -l app=web",
            "leno dashboard -n shop -l app=web --port 9000",
            "leno dashboard --context prod",
            "leno tap",
            "leno top deploy/web --failed",
            "leno describe svc/web -n shop -o json",
            "leno routes svc/web -n shop -t 5s -w",
            "leno tap deploy/web --to svc/api --path /v1 --method GET --status 5xx --slow 100ms --failed",
            "leno tap svc web -n shop -o json --max-rate 1000 --count 5",
            "leno diagnostics endpoints a.b.svc.cluster.local:80 c.d.svc:81 -o json",
            "leno diagnostics policy svc/web 80 -n shop --from other",
            "leno diagnostics proxy-metrics deploy/web -n shop",
            "leno diagnostics controller-metrics",
            "leno explain deploy/a to svc/b:80 GET /path -n shop -o json",
            "leno explain --from deploy/a --to svc/b:80 GET /path -H x-user:me",
            "leno authz deploy/a -n shop -o json",
            "leno check",
            "leno check --pre --kubeconfig k",
            "leno check --proxy -n shop -o short --wait 2m",
            "leno check --machine",
            "leno events -n shop -o json",
            "leno events -A --context prod",
            "leno logs up -f",
            "leno validate -f a.yaml b/ - --strict -o json",
            "leno inject -",
            "leno install --set control.replicas=3,podMonitor.enabled=true --ha -f values.yaml -o json",
            "leno install --identity-issuer-certificate-file a --identity-issuer-key-file b --identity-trust-anchors-file c",
            "leno install --ignore-cluster --namespace mesh",
            "leno upgrade --renew-issuer --context prod",
            "leno uninstall --force",
            "leno inject --manual -R a.yaml b/ --proxy-image localhost/leno-proxy:1",
            "leno uninject a.yaml -",
        ] {
            assert!(Args::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in [
            "leno logs",
            "leno logs x -l a=b",
            "leno ps -A -n x",
            "leno diagnostics policy svc/web",
            "leno tap --max-rate 0",
            "leno tap -o yaml",
            "leno up",
            "leno exec reviews",
            "leno exec -- ls",
            "leno",
            "leno inject",
            "leno validate",
            "leno explain --from deploy/a GET /path",
        ] {
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
