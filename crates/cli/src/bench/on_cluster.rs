//! Flags of a benchmark on a cluster, of `leno bench run` and `leno bench doctor`.

use clap::Args as ClapArgs;
use leno_bench::cluster;
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct BenchCluster {
    /// A cluster: use this kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A cluster: use this context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Image of generator and application [default: localhost/leno-bench:VERSION]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Nodes for load generators [default: one node of their own, if there are two]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    generator_nodes: Vec<String>,
    /// Nodes for servers [default: all others]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    server_nodes: Vec<String>,
}

impl BenchCluster {
    /// Whether the flags name a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Whether a flag is given that has a meaning on a cluster only.
    pub(crate) fn are_details_given(&self) -> bool {
        let nodes = !self.generator_nodes.is_empty() || !self.server_nodes.is_empty();
        self.image.is_some() || nodes
    }

    pub(crate) fn request(self, keep: bool) -> cluster::Request {
        cluster::Request {
            kubeconfig: self.kubeconfig,
            context: self.context,
            image: self.image,
            generator_nodes: self.generator_nodes,
            server_nodes: self.server_nodes,
            keep,
        }
    }
}
