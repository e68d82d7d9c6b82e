//! Flags, with their help beside them.

mod check;
pub(crate) mod home;
mod install;
mod traffic;

pub(crate) use check::{Check, Findings};
pub(crate) use install::{Choice, Install, Manifest, Uninstall, Upgrade, Where};
pub(crate) use traffic::{
    Diagnostics, DiagnosticsVerb, Endpoints, Format, Logs, Policy, ProxyMetrics, Shown, Stat,
};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Leno, the lightest service mesh: runs Kubernetes manifests on one machine and shows what passes through the mesh.
#[derive(Debug, Parser)]
#[command(name = "leno", version, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// The mesh of this machine: where `leno up` keeps its files and its socket [env: LENO_STATE_DIR] [default: /run/leno]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run manifests on this machine: a network namespace per pod, containers as processes, everything gone at the end
    Up(Up),
    /// End what `leno up` started
    Down,
    /// List pods, their addresses, identities and proxies
    Ps(Box<Shown>),
    /// Show traffic: requests, success, latency, TCP
    Stat(Box<Stat>),
    /// Show who speaks with whom: the identities of both sides of every hop
    Edges(Box<Shown>),
    /// Run a program inside a pod (its network, files and processes) and pass its exit code on
    Exec(Exec),
    /// Print what a pod's containers or the control plane wrote
    Logs(Box<Logs>),
    /// Show what the control plane tells proxies, and what both count
    Diagnostics(Box<Diagnostics>),
    /// Give the pods in manifests their proxy, as the injector of a cluster does: `leno inject app.yaml | kubectl apply -f -`
    Inject(Box<Inject>),
    /// Take out of manifests exactly what `leno inject` put in
    Uninject(Manifests),
    /// Print what makes a cluster's control plane: `leno install | kubectl apply -f -`
    Install(Box<Install>),
    /// Print the installation that a cluster has, of this version or with other values: `leno upgrade | kubectl apply -f -`
    Upgrade(Box<Upgrade>),
    /// Print everything of the mesh in a cluster: `leno uninstall | kubectl delete -f -`
    Uninstall(Uninstall),
    /// Measure: load, scenarios, reports
    Bench(crate::bench::Bench),
    /// Tell what is wrong with the mesh in a cluster, or what this machine lacks for `leno up`, and what to do about it
    Check(Box<Check>),
    /// Print the version
    Version,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Up {
    /// Manifests: files, or directories of *.yaml, *.yml and *.json; watched while running
    #[arg(short = 'f', long = "file", required = true, value_name = "PATH", num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Which mesh the pods are part of
    #[arg(long, value_enum, default_value_t = Mesh::Leno)]
    pub(crate) mesh: Mesh,
    /// Go to the background once everything is ready
    #[arg(long, short = 'd')]
    pub(crate) detach: bool,
    /// How long pods may take to become ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) wait: u64,
    /// Do not print what containers write
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// How much to log about ourselves: error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: String,
    /// The background half of --detach
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// Another program in the place of leno-proxy; `leno bench` runs other meshes with it
    #[arg(long, hide = true, value_name = "PROGRAM")]
    pub(crate) sidecar: Option<String>,
    /// An argument of that program
    #[arg(
        long = "sidecar-arg",
        hide = true,
        value_name = "TEXT",
        requires = "sidecar",
        allow_hyphen_values = true
    )]
    pub(crate) sidecar_args: Vec<String>,
    /// That program does without leno-control
    #[arg(long, hide = true, requires = "sidecar")]
    pub(crate) without_control: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mesh {
    /// Every pod gets a proxy, except where `leno.dev/inject: disabled` is annotated
    Leno,
    /// No proxies
    None,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Exec {
    /// Pod by name, unique beginning of its name, or deploy/NAME; `namespace/` may come before
    #[arg(required_unless_present = "node")]
    pub(crate) pod: Option<String>,
    /// Which container's files and environment
    #[arg(short = 'c', long)]
    pub(crate) container: Option<String>,
    /// Enter the node's network instead of a pod: unmeshed, every pod and Service in reach
    #[arg(long, conflicts_with = "pod", conflicts_with = "container")]
    pub(crate) node: bool,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Manifests {
    /// Manifests: files, directories of *.yaml, *.yml and *.json, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Directories below directories, too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inject {
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    /// Namespace of objects that name none
    #[arg(short = 'n', long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    /// Leave what cannot be part of the mesh as it is, and go on
    #[arg(long)]
    pub(crate) ignore_refused: bool,
    /// For those who come from linkerd: proxies are always written out, as with its flag of this name
    #[arg(long)]
    pub(crate) manual: bool,
    /// Image of the proxy
    #[arg(long, value_name = "IMAGE")]
    pub(crate) proxy_image: Option<String>,
    /// When nodes fetch it
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) image_pull_policy: Option<String>,
    /// Where the control plane is
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) control_address: Option<String>,
    /// Namespace of the control plane, which stays outside
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
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Args::command().debug_assert();
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
            "leno diagnostics endpoints a.b.svc.cluster.local:80 c.d.svc:81 -o json",
            "leno diagnostics policy svc/web 80 -n shop --from other",
            "leno diagnostics proxy-metrics deploy/web -n shop",
            "leno diagnostics controller-metrics",
            "leno check",
            "leno check --pre --kubeconfig k",
            "leno check --proxy -n shop -o short --wait 2m",
            "leno check --machine",
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
            "leno up",
            "leno exec reviews",
            "leno exec -- ls",
            "leno",
            "leno inject",
        ] {
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
