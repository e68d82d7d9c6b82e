//! One small HTTP/1 client: a request on a connection of its own, with a limit for time and one for size.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A request that is not sent yet.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    timeout: Duration,
    body: Bytes,
    body_bytes_max: Option<usize>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body without its framing; bytes that are not UTF-8 are replaced.
    pub body: String,
}

impl Call {
    /// A GET. `path` may have a query. The whole exchange may take `timeout`, and the body of the response have so many bytes.
    #[must_use]
    pub fn get(path: impl Into<String>, timeout: Duration, body_bytes_max: usize) -> Self {
        Self { body_bytes_max: Some(body_bytes_max), ..Self::status_only(path, timeout) }
    }

    /// A GET that does not wait for the body of the response, which is empty then.
    #[must_use]
    pub fn status_only(path: impl Into<String>, timeout: Duration) -> Self {
        let (method, path) = (Method::GET, path.into());
        let (headers, body) = (Vec::new(), Bytes::new());
        Self { method, path, headers, timeout, body, body_bytes_max: None }
    }

    /// Makes it a PUT with this body.
    #[must_use]
    pub fn put(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        (self.method, self.body) = (Method::PUT, body.into());
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    /// Adds a header field. `Host` is the address, unless it is given here.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends it over a TCP connection.
    ///
    /// # Errors
    /// There is no complete HTTP answer within the limits; the message names address and path.
    pub async fn tcp(&self, address: SocketAddr) -> io::Result<Response> {
        let exchange = async {
            let stream = TcpStream::connect(address).await?;
            self.exchange(stream, &address.to_string()).await
        };
        self.limited(&address, exchange).await
    }

    /// Like [`tcp`](Self::tcp) for threads without a runtime, such as one that has entered a network namespace.
    ///
    /// # Errors
    /// As in [`tcp`](Self::tcp).
    pub fn tcp_blocking(&self, address: SocketAddr) -> io::Result<Response> {
        on_this_thread(self.tcp(address))
    }

    /// Like [`tcp_blocking`](Self::tcp_blocking), over a Unix socket.
    ///
    /// # Errors
    /// As in [`tcp`](Self::tcp).
    pub fn unix_blocking(&self, socket: &std::path::Path) -> io::Result<Response> {
        let exchange =
            async { self.exchange(UnixStream::connect(socket).await?, "localhost").await };
        on_this_thread(self.limited(&socket.display(), exchange))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        host: &str,
    ) -> io::Result<Response> {
        let mut request =
            Request::builder().method(&self.method).uri(&self.path).header(CONNECTION, "close");
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(HOST.as_str())) {
            request = request.header(HOST, host);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body.clone())).map_err(io::Error::other)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(of_hyper)?;
        let answer = async {
            let (head, body) = sender.send_request(request).await.map_err(of_hyper)?.into_parts();
            let body = match self.body_bytes_max {
                None => Bytes::new(),
                Some(max) => Limited::new(body, max).collect().await.map_err(of_body)?.to_bytes(),
            };
            let body = String::from_utf8_lossy(&body).into_owned();
            Ok(Response { status: head.status.as_u16(), body })
        };
        // The connection is driven here and not by a task, so that it ends with the exchange.
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // The connection may be over before its last answer has been taken. Its own failure is in the answer.
            _ended = connection => answer.await,
        }
    }

    async fn limited(
        &self,
        to: &impl Display,
        exchange: impl Future<Output = io::Result<Response>>,
    ) -> io::Result<Response> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{} {} at {to}: {error}", self.method, self.path))
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer.map_err(named),
            Err(_) => {
                let limit = leno_text::duration::write(self.timeout);
                Err(named(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no complete answer within {limit}"),
                )))
            }
        }
    }
}

/// The innermost cause says most: `invalid HTTP version parsed`, `connection reset by peer`.
fn of_hyper(error: hyper::Error) -> io::Error {
    let cause =
        std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause {
        Some(cause) => io::Error::new(cause.kind(), cause.to_string()),
        None => io::Error::other(error),
    }
}

fn of_body(error: Box<dyn std::error::Error + Send + Sync>) -> io::Error {
    match error.downcast::<hyper::Error>() {
        Ok(error) => of_hyper(*error),
        Err(too_large) => io::Error::other(too_large),
    }
}

fn on_this_thread<T>(exchange: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?
        .block_on(exchange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Answers one connection with these bytes, and then holds the connection open or closes it.
    fn server(
        answer: &'static [u8],
        closes: bool,
    ) -> (SocketAddr, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            stream.write_all(answer).unwrap();
            if !closes {
                // Until the client goes: closing before would discard what the client has not read yet.
                let _gone = std::io::copy(&mut stream, &mut std::io::sink());
            }
            String::from_utf8(head).unwrap()
        });
        (address, thread)
    }

    #[track_caller]
    fn check(call: &Call, answer: &'static [u8], closes: bool, expected: &str) {
        let (address, thread) = server(answer, closes);
        let seen = match call.tcp_blocking(address) {
            Ok(response) => format!("{} {}", response.status, response.body),
            Err(error) => error.to_string().replace(&address.to_string(), "ADDRESS"),
        };
        assert_eq!(seen, expected);
        let _head = thread.join().unwrap();
    }

    #[test]
    fn answers_within_the_limits() {
        let get = Call::get("/metrics", TIMEOUT, 5);
        check(&get, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nup 1\n", false, "200 up 1\n");
        check(
            &get,
            b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            false,
            "503 abc",
        );
        check(&get, b"HTTP/1.0 200 OK\r\n\r\nrest", true, "200 rest");
        check(&get, b"HTTP/1.1 204 No Content\r\n\r\n", false, "204 ");
        let status = Call::status_only("/ready", TIMEOUT);
        check(&status, b"HTTP/1.1 302 Found\r\ncontent-length: 9999\r\n\r\n", false, "302 ");
    }

    #[test]
    fn what_is_no_answer_has_a_message() {
        let get = Call::get("/metrics", TIMEOUT, 5);
        let error = "GET /metrics at ADDRESS:";
        let large = format!("{error} length limit exceeded");
        check(&get, b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nlarge!", false, &large);
        let version = format!("{error} invalid HTTP version parsed");
        check(&get, b"SSH-2.0-OpenSSH\r\n\r\n", true, &version);
        let closed = format!("{error} connection closed before message completed");
        check(&get, b"", true, &closed);
        let short = format!("{error} end of file before message length reached");
        check(&get, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nup", true, &short);
        let slow = Call::get("/metrics", Duration::from_millis(50), 5);
        let late = format!("{error} no complete answer within 50ms");
        check(&slow, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nup", false, &late);
        check(&slow, b"", false, &late);
    }

    #[test]
    fn headers_that_are_sent() {
        check_sent(
            &Call::status_only("/a?b=c", TIMEOUT),
            "GET /a?b=c HTTP/1.1\r\nconnection: close\r\nhost: ADDRESS\r\n\r\n",
        );
        check_sent(
            &Call::status_only("/", TIMEOUT).header("Host", "web").header("x-probe", "1"),
            "GET / HTTP/1.1\r\nconnection: close\r\nhost: web\r\nx-probe: 1\r\n\r\n",
        );
        check_sent(
            &Call::get("/plan", TIMEOUT, 9).put("text/plain", "ab"),
            "PUT /plan HTTP/1.1\r\nconnection: close\r\nhost: ADDRESS\r\ncontent-type: text/plain\r\n\
             content-length: 2\r\n\r\n",
        );
    }

    #[track_caller]
    fn check_sent(call: &Call, head: &str) {
        let (address, thread) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false);
        call.tcp_blocking(address).unwrap();
        assert_eq!(thread.join().unwrap().replace(&address.to_string(), "ADDRESS"), head);
    }
}
