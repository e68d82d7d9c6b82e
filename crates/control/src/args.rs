//! The command line.

use crate::ca::root::Brought;
use clap::{Parser, Subcommand};
use leno_inject::annotation::{self, Resources, Settings, value};
use leno_inject::scope::Words;
use leno_inject::{HostNetwork, Mesh};
use leno_runtime::duration;
use leno_runtime::log::Format;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The control plane of Leno: identity, discovery and policy for every proxy of the mesh.
#[derive(Debug, Parser)]
#[command(name = "leno-control", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve proxies.
    Run(Box<Run>),
    /// Print a token that authenticates a workload.
    IssueToken(IssueToken),
    /// Read manifests, print every problem, exit 1 if there is one.
    Check(Check),
}

/// Serve proxies.
#[derive(Debug, Parser)]
pub struct Run {
    /// Directory of manifests; objects of a later one replace those of an earlier one.
    #[arg(long, required_unless_present = "kubernetes", value_name = "DIR")]
    pub source: Vec<PathBuf>,
    /// What problems call a source that is a copy, in the order of the sources; `leno up` serves copies of manifests that it has accepted.
    #[arg(long, hide = true, value_name = "PATH", conflicts_with = "kubernetes", value_parser = clap::builder::OsStringValueParser::new())]
    pub shown_as: Vec<std::ffi::OsString>,
    /// Read the Kubernetes API instead of directories.
    #[arg(long, conflicts_with = "source")]
    pub kubernetes: bool,
    /// Kubeconfig of the API server. Default: the account of this pod, then KUBECONFIG.
    #[arg(long, value_name = "FILE", requires = "kubernetes")]
    pub kubeconfig: Option<PathBuf>,
    /// The control plane's own namespace.
    #[arg(long, default_value = "leno", value_name = "NAME")]
    pub namespace: String,
    /// Address of the control plane's Service, for proxies in pods that do not use the cluster's DNS. Kubernetes sets the variable.
    #[arg(long, env = "LENO_CONTROL_SERVICE_HOST", value_name = "IP")]
    pub control_ip: Option<std::net::IpAddr>,
    /// Directory of the keys, created with mode 0700. Not used with --kubernetes.
    #[arg(long, value_name = "DIR", required_unless_present = "kubernetes")]
    pub state_dir: Option<PathBuf>,
    /// Address of the injection webhook: HTTPS, path /inject.
    #[arg(long, value_name = "IP:PORT", requires = "kubernetes")]
    pub webhook: Option<SocketAddr>,
    /// Image of injected proxies.
    #[arg(long, value_name = "IMAGE", requires = "kubernetes")]
    pub proxy_image: Option<String>,
    /// Pull policy of that image: Always, IfNotPresent or Never.
    #[arg(long, value_name = "POLICY", requires = "kubernetes", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub proxy_image_pull_policy: Option<String>,
    /// Default CPU request of each proxy.
    #[arg(long, value_name = "QUANTITY", requires = "kubernetes", value_parser = quantity)]
    pub proxy_cpu_request: Option<String>,
    /// Default CPU limit of each proxy.
    #[arg(long, value_name = "QUANTITY", requires = "kubernetes", value_parser = quantity)]
    pub proxy_cpu_limit: Option<String>,
    /// Default memory request of each proxy.
    #[arg(long, value_name = "QUANTITY", requires = "kubernetes", value_parser = quantity)]
    pub proxy_memory_request: Option<String>,
    /// Default memory limit of each proxy.
    #[arg(long, value_name = "QUANTITY", requires = "kubernetes", value_parser = quantity)]
    pub proxy_memory_limit: Option<String>,
    /// Default of a setting of each proxy, by the name of its annotation, e.g. metrics=full; repeatable.
    #[arg(long, value_name = "NAME=VALUE", requires = "kubernetes", value_parser = setting)]
    pub proxy_setting: Vec<(String, String)>,
    /// Read linkerd.io/inject if leno.dev/inject is absent; use false beside linkerd's own injector.
    #[arg(long, value_name = "BOOLEAN", default_value_t = true, action = clap::ArgAction::Set)]
    pub linkerd_annotations: bool,
    /// Pods with hostNetwork in a namespace of the mesh: leave them outside (skip), or refuse them.
    #[arg(long, value_name = "WORD", default_value = "skip", value_parser = ["skip", "refuse"])]
    pub host_network: String,
    /// Add prometheus.io annotations to injected pods that have none.
    #[arg(long, value_name = "BOOLEAN", default_value_t = false, action = clap::ArgAction::Set)]
    pub prometheus_annotations: bool,
    /// Address for proxies.
    #[arg(long, value_name = "IP:PORT")]
    pub listen: SocketAddr,
    /// Address of /ready, /live, /metrics and /problems.
    #[arg(long, value_name = "IP:PORT")]
    pub admin: Option<SocketAddr>,
    /// Trust domain of identities.
    #[arg(long, default_value = "cluster.local", value_name = "NAME")]
    pub trust_domain: String,
    /// Lifetime of a workload's certificate, e.g. 24h.
    #[arg(long, default_value = "24h", value_parser = lifetime)]
    pub leaf_lifetime: Duration,
    /// Your own issuer: certificate (PEM, with any certificates between it and the root).
    #[arg(long, value_name = "FILE", conflicts_with = "kubernetes", requires_all = ["issuer_key", "trust_anchors"])]
    pub issuer_cert: Option<PathBuf>,
    /// Your own issuer: key (PEM, PKCS #8).
    #[arg(long, value_name = "FILE", requires = "issuer_cert")]
    pub issuer_key: Option<PathBuf>,
    /// Your own issuer: roots that proxies trust (PEM).
    #[arg(long, value_name = "FILE", requires = "issuer_cert")]
    pub trust_anchors: Option<PathBuf>,
    /// Level list, e.g. info,leno_control::ca=debug.
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    pub log: String,
    /// plain or json.
    #[arg(long, default_value = "plain", value_name = "FORMAT")]
    pub log_format: Format,
}

/// Print a token that authenticates a workload.
#[derive(Debug, Parser)]
pub struct IssueToken {
    /// Directory of the control plane's keys.
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Namespace of the workload.
    #[arg(long)]
    pub namespace: String,
    /// Its service account.
    #[arg(long)]
    pub service_account: String,
    /// Its pod.
    #[arg(long)]
    pub pod: String,
    /// Lifetime of the token.
    #[arg(long, default_value = "8760h", value_parser = lifetime)]
    pub ttl: Duration,
}

/// Read manifests and print every problem.
#[derive(Debug, Parser)]
pub struct Check {
    /// Directory or file of manifests; may be repeated.
    #[arg(short = 'f', long = "source", required = true, value_name = "DIR")]
    pub source: Vec<PathBuf>,
    /// As one list of JSON, for programs.
    #[arg(short = 'o', long = "output", value_parser = ["json"])]
    pub output: Option<String>,
}

impl Run {
    /// The user's own issuer, where all of it is given.
    #[must_use]
    pub fn brought(&self) -> Option<Brought> {
        Some(Brought {
            certificate: self.issuer_cert.clone()?,
            key: self.issuer_key.clone()?,
            anchors: self.trust_anchors.clone()?,
        })
    }
}

impl Run {
    /// What the mesh says about the proxies that are injected.
    #[must_use]
    pub fn mesh(&self) -> Mesh {
        let usual = Mesh::default();
        let namespace = self.namespace.clone();
        Mesh {
            control_address: format!("leno-control.{namespace}.svc:{}", Mesh::CONTROL_PORT),
            control_ip: self.control_ip,
            proxy_image: self.proxy_image.clone().unwrap_or(usual.proxy_image),
            image_pull_policy: self
                .proxy_image_pull_policy
                .clone()
                .unwrap_or(usual.image_pull_policy),
            trust_domain: self.trust_domain.clone(),
            // The installation sets all of these values; an absent one means no request or limit.
            resources: Resources {
                cpu_request: self.proxy_cpu_request.clone(),
                cpu_limit: self.proxy_cpu_limit.clone(),
                memory_request: self.proxy_memory_request.clone(),
                memory_limit: self.proxy_memory_limit.clone(),
            },
            settings: self.settings(),
            words: self.words(),
            host_network: match self.host_network.as_str() {
                "refuse" => HostNetwork::Refuse,
                _ => HostNetwork::Skip,
            },
            prometheus_annotations: self.prometheus_annotations,
            namespace,
            ..Mesh::default()
        }
    }

    /// Settings of all proxies; each was read with the command line, and the last of a name holds.
    fn settings(&self) -> Settings {
        let given = self.proxy_setting.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        annotation::of_mesh(given).unwrap_or_default()
    }

    /// Whose annotations about injection are read.
    #[must_use]
    pub fn words(&self) -> Words {
        if self.linkerd_annotations { Words::LinkerdsToo } else { Words::OursAlone }
    }
}

/// `metrics=full`.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    annotation::of_mesh([(name, value)]).map_err(|wrong| wrong.join("; "))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A quantity of Kubernetes.
fn quantity(text: &str) -> Result<String, String> {
    let read = value::millis(text).map(|_| text.to_owned());
    read.ok_or_else(|| format!("{text:?} is not a quantity such as 100m, 0.5 or 16Mi"))
}

/// Of certificates and tokens, whose times are in whole seconds.
fn lifetime(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        lifetime if lifetime.as_secs() == 0 => Err(format!("{text:?} is too short: at least 1s")),
        lifetime => Ok(lifetime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(lifetime(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("24h", Some(86_400));
        check("1s", Some(1));
        check("2d", Some(172_800));
        check("90", None);
        check("0s", None);
        check("999ms", None);
    }

    #[test]
    fn what_the_chart_says_of_proxies() {
        let mesh = |flags: &str| {
            let line = format!("leno-control run --kubernetes --listen [::]:8086 {flags}");
            let args = Args::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
            let Command::Run(run) = args.command else { unreachable!("{line}") };
            Ok::<_, String>(run.mesh())
        };
        let said = mesh("").unwrap();
        assert_eq!((said.resources, said.words), (Resources::default(), Words::LinkerdsToo));
        let said = mesh(
            "--proxy-cpu-request=10m --proxy-cpu-limit=0.5 --proxy-memory-request=20Mi --proxy-memory-limit=1.34e+08 \
             --linkerd-annotations=false",
        )
        .unwrap();
        let expected = Resources {
            cpu_request: Some("10m".to_owned()),
            cpu_limit: Some("0.5".to_owned()),
            memory_request: Some("20Mi".to_owned()),
            memory_limit: Some("1.34e+08".to_owned()),
        };
        assert_eq!((said.resources, said.words), (expected, Words::OursAlone));
        let said = mesh("--proxy-setting=metrics=full --proxy-setting=tracing-sampling-rate=5%");
        let settings = said.unwrap().settings;
        assert_eq!(settings.get("metrics"), Some("full"));
        assert_eq!(settings.get("tracing-sampling-rate"), Some("5%"));
        for (wrong, why) in [
            ("metrics", "\"metrics\" is not NAME=VALUE"),
            ("metrics=all", "\"all\" is not one of lean, full"),
            ("metric=full", "metric is not a setting of proxies"),
        ] {
            let refused = mesh(&format!("--proxy-setting={wrong}")).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let wrong = mesh("--proxy-cpu-request=much").unwrap_err();
        assert!(wrong.contains("\"much\" is not a quantity such as 100m"), "{wrong}");
    }
}
