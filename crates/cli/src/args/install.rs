//! Flags of what installs the mesh in a cluster and takes it out again.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Which cluster.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Where {
    /// The kubeconfig [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// How manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manifest {
    /// YAML documents, with comments
    #[default]
    Yaml,
    /// One JSON List
    Json,
}

/// What is chosen.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Choice {
    /// Set a value of the chart: control.replicas=3,podMonitor.enabled=true; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// The same, with every value as a string
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set_string: Vec<String>,
    /// A file of values (YAML); may be repeated, and later files override earlier ones
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) values: Vec<PathBuf>,
    /// Three replicas on different nodes, and a PodDisruptionBudget
    #[arg(long)]
    pub(crate) ha: bool,
    /// The issuer's certificate (PEM), followed by intermediate certificates up to a root
    #[arg(long, value_name = "FILE", requires = "identity_issuer_key_file")]
    pub(crate) identity_issuer_certificate_file: Option<PathBuf>,
    /// The issuer's key (PEM, PKCS #8)
    #[arg(long, value_name = "FILE", requires = "identity_issuer_certificate_file")]
    pub(crate) identity_issuer_key_file: Option<PathBuf>,
    /// The roots that proxies trust (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) identity_trust_anchors_file: Option<PathBuf>,
    /// Trust domain of all identities (identity.trustDomain)
    #[arg(long, value_name = "NAME")]
    pub(crate) identity_trust_domain: Option<String>,
    /// Registry and path of both images, `registry.example.com/leno` (registry)
    #[arg(long, value_name = "REGISTRY")]
    pub(crate) registry: Option<String>,
    /// Image of the control plane (control.image)
    #[arg(long, value_name = "IMAGE")]
    pub(crate) control_image: Option<String>,
    /// Image of the proxy (proxy.image)
    #[arg(long, value_name = "IMAGE")]
    pub(crate) proxy_image: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Manifest,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Install {
    /// Namespace of the control plane; it is created
    #[arg(short = 'n', long, value_name = "NAME", default_value = leno_inject::Mesh::NAMESPACE)]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Do not check whether the cluster already has a control plane
    #[arg(long)]
    pub(crate) ignore_cluster: bool,
    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Upgrade {
    /// Namespace of the control plane
    #[arg(short = 'n', long, value_name = "NAME", default_value = leno_inject::Mesh::NAMESPACE)]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Do not keep the values of the last installation
    #[arg(long)]
    pub(crate) reset_values: bool,
    /// Create a new issuer with the root that `leno install` created
    #[arg(long, conflicts_with = "identity_issuer_certificate_file")]
    pub(crate) renew_issuer: bool,
    /// Continue even if running proxies would reject each other's certificates, or if objects of another control plane would be overwritten
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Uninstall {
    /// Namespace of the control plane
    #[arg(short = 'n', long, value_name = "NAME", default_value = leno_inject::Mesh::NAMESPACE)]
    pub(crate) namespace: String,
    /// Continue even if pods have proxies, which then lose their control plane
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) cluster: Where,
}
