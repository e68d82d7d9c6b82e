//! Flags of what installs the mesh in a cluster and takes it out again.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Which cluster.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Where {
    /// The kubeconfig; $KUBECONFIG or ~/.kube/config otherwise
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Its context; the current one otherwise
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// How manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manifest {
    /// Documents, with comments
    #[default]
    Yaml,
    /// One List
    Json,
}

/// What is chosen.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Choice {
    /// A value of the chart: control.replicas=3,podMonitor.enabled=true; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// The same, and every value is a text
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set_string: Vec<String>,
    /// A file of values (YAML); may be repeated, later ones are stronger
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) values: Vec<PathBuf>,
    /// Three replicas on different nodes, and a PodDisruptionBudget
    #[arg(long)]
    pub(crate) ha: bool,
    /// The issuer's certificate (PEM), then any between it and a root
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
    /// Image of the control plane (control.image)
    #[arg(long, value_name = "IMAGE")]
    pub(crate) control_image: Option<String>,
    /// Image of the proxy (proxy.image)
    #[arg(long, value_name = "IMAGE")]
    pub(crate) proxy_image: Option<String>,
    /// How to print
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Manifest,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Install {
    /// Namespace of the control plane, which is made
    #[arg(short = 'n', long, value_name = "NAME", default_value = leno_inject::Mesh::NAMESPACE)]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Do not look whether the cluster has a control plane already
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
    /// Forget the values of before
    #[arg(long)]
    pub(crate) reset_values: bool,
    /// Make a new issuer with the root that `leno install` made
    #[arg(long, conflicts_with = "identity_issuer_certificate_file")]
    pub(crate) renew_issuer: bool,
    /// Also where running proxies would lose their trust in each other, or another control plane what it has in the whole cluster
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
    /// Also while there are pods with proxies, which will lose their control plane
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) cluster: Where,
}
