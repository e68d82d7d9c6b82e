//! Flags that say which mesh is meant, and which part of it.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Who asks which cluster, in `kubectl`'s words.
#[derive(Clone, Debug, Default, PartialEq, Eq, ClapArgs)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// A cluster: use this kubeconfig instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A cluster: use this context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Impersonate this user
    #[arg(long = "as", visible_alias = "kube-as", value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Impersonate this group; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub(crate) groups: Vec<String>,
    /// Namespace of the control plane
    #[arg(long, value_name = "NAME", default_value = leno_inject::Mesh::NAMESPACE)]
    pub(crate) control_namespace: String,
}

impl ClusterFlags {
    /// Whether they mean a cluster.
    pub(crate) fn are_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.user.is_some()
    }
}

/// Which pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, ClapArgs)]
pub(crate) struct Scope {
    /// Pods of this namespace [default: in a cluster the namespace of the context, on one machine all]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Pods with these labels: a=b, a!=b, a, !a, 'a in (b,c)', 'a notin (b,c)', separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
}

/// What the environment says of where meshes are; read once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// `LENO_STATE_DIR`.
    pub(crate) state_dir: Option<PathBuf>,
    /// `KUBECONFIG` is set.
    pub(crate) kubeconfig: bool,
    /// `~/.kube/config` exists.
    pub(crate) kubeconfig_usual: bool,
    /// We are in a pod.
    pub(crate) in_pod: bool,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let given = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let usual = given("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        Self {
            state_dir: given("LENO_STATE_DIR").map(PathBuf::from),
            kubeconfig: given("KUBECONFIG").is_some(),
            kubeconfig_usual: usual.is_some_and(|file| file.exists()),
            in_pod: given("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }
}
