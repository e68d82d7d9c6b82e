//! Servers inside a pod that serve each connection on a thread of its own.

use crate::namespace::Namespace;
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;

/// Listens on a port of the namespace, and serves every connection until the test's process ends.
///
/// # Panics
/// When the port is in use.
pub fn accept<T>(
    namespace: &Namespace,
    port: u16,
    serve: impl Fn(TcpStream) -> T + Send + Sync + 'static,
) {
    let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    let listener = namespace.run(bind).expect("the port is free");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || drop(serve(stream)));
        }
    });
}
