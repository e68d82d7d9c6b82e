//! Where the control plane is: an address, or a name that is looked up at every connection, so that it may move.

use leno_model::name::DnsName;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

/// `ip:port` or `name:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlAddress(Arc<str>);

impl ControlAddress {
    /// Parses either form.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let wrong = || format!("{text:?} is not IP:PORT or NAME:PORT");
        let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let known = DnsName::parse(name).map_err(|error| format!("{text:?}: {error}"))?;
        // A mistyped IP address is not a name. A name with a dot at its end is looked up unchanged.
        if known.as_str().rsplit('.').next().is_some_and(|last| last.parse::<u32>().is_ok()) {
            return Err(wrong());
        }
        let root = if name.ends_with('.') { "." } else { "" };
        Ok(Self(format!("{known}{root}:{port}").into()))
    }

    /// A connection to the first of its addresses that takes one.
    ///
    /// # Errors
    /// The name is not known, or nobody takes a connection.
    pub async fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect(self.0.as_ref()).await
    }
}

impl From<SocketAddr> for ControlAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string().into())
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            let shown = ControlAddress::parse(text).ok().map(|address| address.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
        check("10.0.0.1:8086", Some("10.0.0.1:8086"));
        check("[fd00::1]:8086", Some("[fd00::1]:8086"));
        check("leno-control.leno.svc:8086", Some("leno-control.leno.svc:8086"));
        check(
            "Leno-Control.leno.svc.cluster.local.:1",
            Some("leno-control.leno.svc.cluster.local.:1"),
        );
        check("localhost:1", Some("localhost:1"));
        for text in [
            "",
            ":1",
            "a",
            "a:0",
            "a:65536",
            "a b:1",
            "fd00::1:8086",
            "10.0.0.256:1",
            "10.0.0:1",
            "http://a:1",
        ] {
            check(text, None);
        }
    }

    #[tokio::test]
    async fn a_name_is_looked_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        assert!(ControlAddress::parse(&address).unwrap().connect().await.is_ok());
        let nowhere = ControlAddress::parse("nowhere.invalid:1").unwrap();
        assert!(nowhere.connect().await.is_err());
    }
}
