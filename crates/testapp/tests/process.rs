//! The built worker as a process on loopback, spoken to with bytes of our own (HTTP/1, TCP) and with hyper (gRPC).

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test's way of failing")]

#[path = "process/drain.rs"]
mod drain;
#[path = "process/drive.rs"]
mod drive;
#[path = "process/grpc.rs"]
mod grpc;
#[path = "process/http.rs"]
mod http1;
#[path = "../src/grpc/message.rs"]
mod message;
#[path = "process/remote.rs"]
mod remote;
#[path = "process/support.rs"]
mod support;
#[path = "process/tcp.rs"]
mod tcp;
