//! Flags of `leno dashboard`.

use super::home::ClusterFlags;
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Dashboard {
    /// Port on 127.0.0.1; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Only pods of this namespace [default: all namespaces]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Only pods with these labels: a=b, a!=b, a, !a, 'a in (b,c)', 'a notin (b,c)', separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}
