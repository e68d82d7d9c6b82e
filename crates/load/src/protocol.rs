//! The protocols that the engine has a client for.

use std::str::FromStr;

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    Http1,
    /// HTTP/2: with prior knowledge, or by ALPN.
    Http2,
    /// gRPC, one call per request.
    GrpcUnary,
    /// gRPC, one bidirectional stream per lane, one message each way per request.
    GrpcStream,
    /// TCP: as many bytes back as were sent.
    Tcp,
}

impl Protocol {
    /// Its name in JSON and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::GrpcUnary => "grpc",
            Self::GrpcStream => "grpc-stream",
            Self::Tcp => "tcp",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Http1, Self::Http2, Self::GrpcUnary, Self::GrpcStream, Self::Tcp];
        all.into_iter()
            .find(|protocol| protocol.name() == text)
            .ok_or_else(|| format!("{text:?} is not one of http1, http2, grpc, grpc-stream, tcp"))
    }
}
