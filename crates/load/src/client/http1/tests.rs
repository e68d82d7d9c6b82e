//! The client against a socket that says what it is told to.

use super::*;
use crate::client::{Lane, open};
use crate::plan::Plan;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers each request of one connection with the next of these, then closes.
async fn serve(listener: TcpListener, request_bytes: usize, answers: Vec<Vec<u8>>) {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut request = vec![0; request_bytes];
    for answer in answers {
        stream.read_exact(&mut request).await.expect("a request");
        stream.write_all(&answer).await.expect("the client reads");
    }
}

/// What becomes of one request after the other, until the connection is of no further use.
fn outcomes(body: Vec<u8>, answers: Vec<Vec<u8>>) -> Vec<Result<Answer, Failure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let mut plan = Plan::new(format!("http://{address}/").parse().expect("a URL"));
        plan.body = body;
        let target = Rc::new(Target::new(&plan).expect("an address resolves"));
        let length = target.http1.len();
        let client = async {
            let mut lane = open(&target).await.expect("somebody listens").remove(0);
            let mut seen = Vec::new();
            while lane.is_open() {
                let exchange = lane.exchange().await;
                assert!(exchange.sent <= exchange.end && exchange.first_byte <= exchange.end);
                assert!(matches!(lane, Lane::Http1(_)));
                seen.push(exchange.result);
            }
            seen
        };
        let (seen, ()) = tokio::join!(client, serve(listener, length, answers));
        seen
    })
}

fn answer(status: u16, bytes_in: u64) -> Result<Answer, Failure> {
    Ok(Answer { status, grpc_status: 0, bytes_in })
}

#[test]
fn one_connection_serves_many_requests_until_it_is_closed() {
    let plain = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab".to_vec();
    let last = b"HTTP/1.1 500 No\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx".to_vec();
    let seen = outcomes(Vec::new(), vec![plain.clone(), plain.clone(), last]);
    assert_eq!(seen, [answer(200, 2), answer(200, 2), answer(500, 1)]);
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab".to_vec();
    assert_eq!(outcomes(Vec::new(), vec![plain, cut])[1..], [Err(Failure::Closed)]);
    let none = b"no HTTP\r\n".to_vec();
    assert_eq!(outcomes(Vec::new(), vec![none]), [Err(Failure::Protocol)]);
    let until_close = b"HTTP/1.1 200 OK\r\n\r\nall".to_vec();
    assert_eq!(outcomes(Vec::new(), vec![until_close]), [answer(200, 3)]);
}

#[test]
fn bodies_larger_than_any_buffer() {
    let mut large =
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3000000\r\n\r\n".to_vec();
    large.resize(large.len() + 3_000_000, b'x');
    assert_eq!(outcomes(vec![b'y'; 2_000_000], vec![large]), [answer(200, 3_000_000)]);
}
