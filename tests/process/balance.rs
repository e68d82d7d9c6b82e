//! Shares of replicas, by real proxies.

use leno_tests::mesh::{Meshed, Plan};
use leno_tests::namespace::Namespace;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PORT: u16 = 8001;
const RATE: u32 = 100;
const SECONDS: u32 = 10;
/// Of the two replicas each has this much at least.
const SHARE_MIN: f64 = 0.35;

/// Answers every request with one letter, until its listener is gone.
fn serve(pod: &Namespace, letter: char) {
    let listener =
        pod.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).expect("a listener"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream, letter));
        }
    });
}

fn answer(mut stream: TcpStream, letter: char) {
    let lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
    for line in lines.map_while(Result::ok) {
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{letter}");
        if line.is_empty() && stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

/// One request of a client that keeps its connection.
fn ask(stream: &mut TcpStream) -> char {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: server\r\n\r\n").expect("sent");
    let mut response = Vec::new();
    let mut byte = [0];
    while !response.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a response");
        response.push(byte[0]);
    }
    assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
    stream.read_exact(&mut byte).expect("a body");
    char::from(byte[0])
}

#[test]
fn two_equal_replicas_get_equal_shares() {
    let plan = Plan::new().pod("client").pod("one").pod("two");
    let mesh = plan.service("server", [PORT], &["one", "two"]).start("balance", Meshed::Yes);
    serve(&mesh.pod("one").namespace, '1');
    serve(&mesh.pod("two").namespace, '2');
    let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
    let said: String = mesh.pod("client").namespace.run(|| {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_nodelay(true).expect("set");
        let began = Instant::now();
        let due = |number: u32| began + Duration::from_secs(1) / RATE * number;
        (0..RATE * SECONDS)
            .map(|number| {
                std::thread::sleep(due(number).saturating_duration_since(Instant::now()));
                ask(&mut stream)
            })
            .collect()
    });
    let of_one = said.chars().filter(|letter| *letter == '1').count();
    let share = of_one as f64 / said.len() as f64;
    println!("balance: one of two equal replicas got {:.1} %", share * 100.0);
    assert!((SHARE_MIN..1.0 - SHARE_MIN).contains(&share), "{of_one} of {}", said.len());
}
