//! `leno bench serve`: results in a browser.

use clap::Args as ClapArgs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Where the results are, a directory each
    #[arg(long, default_value = "results")]
    dir: PathBuf,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen on; any but loopback shows the results to the network
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Make loads, too, for whoever asks at /fortio/rest/run, as fortio does; never for pages in a browser
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
