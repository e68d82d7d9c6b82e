//! One request in a pod `client`, by HTTP/1 or HTTP/2.

use super::PORTS;
use bytes::Bytes;
use leno_runtime::tasks::spawn_local;
use leno_tests::mesh::Mesh;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Response {
    /// The first value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }
}

/// Asks the Service `server` on a port; `request` is a method and a target.
pub(super) fn ask(mesh: &Mesh, port: u16, request: &str, headers: &[(&str, &str)]) -> Response {
    send(mesh, port, request, headers, b"")
}

/// The same with a body.
pub(super) fn send(
    mesh: &Mesh,
    port: u16,
    request: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, port));
    let (method, target) = request.split_once(' ').expect("a method and a target");
    let client = &mesh.pod("client").namespace;
    if port == PORTS[0] {
        return client.run(|| http1(address, (method, target), headers, body));
    }
    let body = Bytes::copy_from_slice(body);
    client.block_on(|| http2(address, (method, target), headers, body))
}

fn http1(
    address: SocketAddr,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut stream = TcpStream::connect(address).expect("connected");
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: server\r\nConnection: close\r\n");
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).expect("sent");
    stream.write_all(body).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return Response::default() };
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let header =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    Response {
        status: status.unwrap_or(0),
        headers: lines.filter_map(header).collect(),
        body: body.to_owned(),
    }
}

async fn http2(
    address: SocketAddr,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    body: Bytes,
) -> Response {
    let stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    spawn_local("client connection", async move { drop(connection.await) });
    let mut request = http::Request::builder().method(method).uri(format!("http://server{target}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut send = send.ready().await.expect("ready");
    let request = request.body(()).expect("a request");
    let (response, mut up) = send.send_request(request, body.is_empty()).expect("sent");
    if !body.is_empty() {
        up.send_data(body, true).expect("sent");
    }
    let Ok(response) = response.await else { return Response::default() };
    let (head, mut body) = response.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let mut answer =
        Response { status: head.status.as_u16(), headers: headers.collect(), body: String::new() };
    while let Some(Ok(bytes)) = body.data().await {
        answer.body += &String::from_utf8_lossy(&bytes);
        let _reset = body.flow_control().release_capacity(bytes.len());
    }
    answer
}
