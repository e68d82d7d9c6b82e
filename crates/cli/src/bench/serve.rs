//! `leno bench serve`: results in a browser.

use clap::Args as ClapArgs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Directory of results
    #[arg(long, default_value = "results")]
    dir: PathBuf,
    /// Port to listen on; 0 chooses a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen on; any address other than loopback shows the results to the network
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Offer fortio's REST interface, which starts loads (/fortio/rest/run); pages in a browser cannot use it
    #[arg(long)]
    fortio_rest: bool,
}

/// Serves until a signal.
pub(crate) fn run(arguments: Serve) -> anyhow::Result<ExitCode> {
    let address = SocketAddr::new(arguments.address, arguments.port);
    leno_bench::report::serve::run(&arguments.dir, address, arguments.fortio_rest, |address| {
        eprintln!("leno: results on http://{address}/");
    })?;
    Ok(ExitCode::SUCCESS)
}
