//! A small HTTP/1 server for the browser of one person: the pages of `leno dashboard` and `leno bench serve`.

use crate::{signal, tasks};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// A browser opens a handful.
const CONNECTIONS_MAX: usize = 64;
/// A browser may keep an idle connection for so long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a failed accept, when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves on `address` with one thread until SIGTERM or SIGINT; `listening` gets the address with its port.
///
/// # Errors
/// The runtime cannot start, or the address cannot be listened on.
pub fn run<S: 'static, F>(
    address: SocketAddr,
    state: S,
    answer: impl Fn(Rc<S>, Request<Incoming>) -> F + Copy + 'static,
    listening: impl FnOnce(SocketAddr),
) -> io::Result<()>
where
    F: Future<Output = Response<Full<Bytes>>> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(address).await?;
        listening(listener.local_addr()?);
        tokio::select! {
            () = accept(listener, Rc::new(state), answer) => {}
            _signal = signal::terminate() => {}
        }
        Ok(())
    })
}

async fn accept<S: 'static, F>(
    listener: TcpListener,
    state: Rc<S>,
    answer: impl Fn(Rc<S>, Request<Incoming>) -> F + Copy + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + 'static,
{
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let state = Rc::clone(&state);
        tasks::spawn_local("page connection", async move {
            let service = service_fn(move |request| {
                let response = answer(Rc::clone(&state), request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            // A browser that closes its connection is not an error.
            let _served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(permit);
        });
    }
}

/// Whether a `Host` header names this machine: `localhost` or a loopback address, with any port, since an SSH tunnel may have another one.
/// A page elsewhere could give its own name the address 127.0.0.1 (DNS rebinding).
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts() {
        let check = |host: &str, expected: bool| {
            assert_eq!(is_loopback_host(host), expected, "{host}");
        };
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "[::1]", "127.1.2.3"]
        {
            check(host, true);
        }
        for host in ["example.org", "example.org:8080", "127.0.0.1.example.org", "192.0.2.1:80", ""]
        {
            check(host, false);
        }
    }
}
