//! TLS of the load engine's connections: who the server may be, and who we are.

use crate::load::client::Failure;
use crate::load::client::stream::Stream;
use crate::load::plan::Plan;
use tokio::net::TcpStream;

/// Everything that a handshake needs, read once.
#[derive(Clone, Debug)]
pub struct Connector {}

impl Connector {
    /// Reads the certificates that the plan names.
    ///
    /// # Errors
    /// A file is missing or is not what it should be; the message names the flag.
    pub fn new(_plan: &Plan) -> anyhow::Result<Self> {
        anyhow::bail!("TLS is not built yet")
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// `Failure::Tls`, or how the connection ended.
    pub async fn connect(&self, _stream: TcpStream) -> Result<Stream, Failure> {
        Err(Failure::Tls)
    }
}
