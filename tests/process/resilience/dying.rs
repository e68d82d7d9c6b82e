//! The worst moments of an application: it dies while a request is on its way to it, or pretends to be dead.

use crate::programs::web::{PORT, nginx};
use leno_tests::load::{self, Connections};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Program;
use leno_tests::script::find;
use leno_tests::wait;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::mpsc;
use std::time::Duration;

/// For the second request of the one that is to die: after a slow first answer the balancer prefers the other one for a minute.
const CHOSEN_AGAIN: Duration = Duration::from_secs(120);

fn site(name: &str) -> Mesh {
    let plan = Plan::new().pod("client").pod("living").pod("dying");
    plan.service("server", [PORT, PORT + 1], &["living", "dying"]).start(name, Meshed::Yes)
}

fn service(mesh: &Mesh) -> SocketAddr {
    (mesh.service("server").addresses.v4, PORT).into()
}

/// The kernel closes a killed program's connections before its listener: what is sent again meets a port that still
/// takes connections, and is reset there.
#[test]
fn a_killed_application_resets_what_comes_after() {
    let mesh = site("dying-backlog");
    let living = "location / { return 200 'living'; }";
    let _living = nginx(&mesh, "living", living);
    let (answers_sender, answers) = mpsc::channel();
    let dying = mesh.pod("dying").namespace.run(|| {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("a free port");
        std::thread::spawn(move || die(&listener, &answers_sender))
    });
    let address = service(&mesh);
    let mut kept = None;
    let mut get = || {
        let client = &mesh.pod("client").namespace;
        let answer = client.run(|| load::get(&mut kept, address, Connections::Kept));
        answer.expect("every GET is answered")
    };
    // Until the dying one has answered, and so has a connection that is used again.
    while answers.try_recv().is_err() {
        get();
    }
    // Until it is dead: one of these meets it in its last moment.
    while !dying.is_finished() {
        assert_eq!(get(), "living");
    }
    dying.join().expect("it died as it was told");
    assert_eq!(get(), "living");
}

/// Answers one request; resets the next in place of an answer, takes nothing more, and closes its listener once the
/// request has come again.
fn die(listener: &TcpListener, answered: &mpsc::Sender<()>) {
    let (mut connection, _) = listener.accept().expect("a connection");
    connection.set_read_timeout(Some(CHOSEN_AGAIN)).expect("a limit");
    read_head(&mut connection);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndying").expect("answer");
    answered.send(()).expect("the test waits");
    read_head(&mut connection);
    SockRef::from(&connection).set_linger(Some(Duration::ZERO)).expect("a reset at the end");
    drop(connection);
    let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(wait::LIMIT).expect("a limit that fits");
    assert_eq!(poll(&mut waiting, limit), Ok(1), "the request did not come again");
}

fn read_head(connection: &mut TcpStream) {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while find(&head, b"\r\n\r\n").is_none() {
        let count = connection.read(&mut piece).expect("a request");
        assert!(count > 0, "the request was cut off");
        head.extend_from_slice(&piece[..count]);
    }
}

/// A response counted at the endpoint that was tried first, whichever endpoint gave it.
#[test]
fn a_response_counts_at_the_endpoint_that_answered() {
    let mesh = site("dying-counted");
    // No program listens in the other pod.
    let _living = nginx(&mesh, "living", "location / { return 200 'living'; }");
    let address = service(&mesh);
    let refused = [("direction", "outbound"), ("reason", "upstream_refused")];
    let retries = || mesh.pod("client").metrics().sum("http_retries_total", &refused);
    for (version, port) in [("--http1.1", PORT), ("--http2-prior-knowledge", PORT + 1)] {
        let url = format!("http://{}:{port}/", address.ip());
        let before = retries();
        wait::until(&format!("a retry of {version}"), wait::LIMIT, || {
            let curl = Program::new("curl").args(["-sS", "-m", "20", version]);
            let client = &mesh.pod("client").namespace;
            let answer = curl.args([&url]).output(client, wait::LIMIT).expect("curl").text();
            assert_eq!(answer, "living");
            (retries() > before).then_some(())
        });
    }
    let metrics = mesh.pod("client").metrics();
    let of =
        |name: &str, pod: &str| metrics.sum(name, &[("direction", "outbound"), ("dst_pod", pod)]);
    let about = || metrics.about("_total");
    assert!(of("request_total", "dying") >= 2.0, "{}", about());
    assert_eq!(of("response_total", "dying"), 0.0, "{}", about());
    assert_eq!(of("response_total", "living"), of("request_total", "living"), "{}", about());
}

/// What proxies say to each other is not taken from an application: nothing is sent twice on its word.
#[test]
fn an_application_cannot_pretend_to_be_unreachable() {
    let mesh = site("dying-pretended");
    let text = "the server refused the connection; check that it listens on this address and port";
    let pretending = format!(
        "location / {{
           add_header leno-application unreachable always;
           add_header l5d-proxy-error '{text}' always;
           add_header x-answered-by pretender always;
           return 502 'pretended';
         }}"
    );
    let _pretending = nginx(&mesh, "dying", &pretending);
    let _living = nginx(&mesh, "living", "location / { return 200 'living'; }");
    let address = service(&mesh);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let port = if version == "--http1.1" { PORT } else { PORT + 1 };
        let url = format!("http://{}:{port}/", address.ip());
        let mut seen = (0, 0);
        while seen.0 == 0 || seen.1 == 0 {
            let curl = Program::new("curl").args(["-sS", "-i", "-m", "20", "-X", "POST", version]);
            let client = &mesh.pod("client").namespace;
            let answer = curl.args([&url]).output(client, wait::LIMIT).expect("curl").text();
            if answer.ends_with("living") {
                seen.0 += 1;
                continue;
            }
            // Passed on as it is, but for the word.
            assert!(answer.ends_with("pretended"), "{answer}");
            assert!(answer.to_lowercase().contains("x-answered-by: pretender"), "{answer}");
            assert!(!answer.to_lowercase().contains("leno-application"), "{answer}");
            seen.1 += 1;
        }
        // Were it believed, its share would come from the other one.
        println!("{version}: {} answers of the living, {} of the pretender", seen.0, seen.1);
    }
}
