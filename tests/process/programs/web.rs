//! nginx, and clients that speak HTTP.

use super::{LIMIT, client, client_and_server, data_directory, same, text};
use leno_tests::mesh::{Mesh, Plan};
use leno_tests::program::{Program, Running};
use leno_tests::wait;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

/// HTTP/1.
pub(crate) const PORT: u16 = 8001;
/// HTTP/2 with prior knowledge: this nginx can listen for one of both only.
const HTTP2_PORT: u16 = 8002;

/// nginx in the server's pod, with some of what sites have.
pub(crate) fn nginx(mesh: &Mesh, pod: &str, locations: &str) -> Running {
    let directory = data_directory(mesh, &format!("nginx-{pod}"), 0);
    let page: Vec<u8> = (0..1 << 20).map(|at: u32| b'a' + (at % 23) as u8).collect();
    for (name, content) in [("large.txt", page.as_slice()), ("small.txt", b"small\n")] {
        let path = directory.join(name);
        std::fs::write(&path, content).expect("write a page");
        // The same ETag and Last-Modified in both runs.
        let file = std::fs::File::options().write(true).open(&path).expect("open it");
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        file.set_modified(date).expect("set its date");
    }
    let root = text(&directory);
    let configuration = format!(
        "daemon off; master_process off; worker_processes 1; pid {root}/pid; error_log stderr warn;
        events {{ worker_connections 1024; }}
        http {{
          access_log off; root {root}; default_type text/plain;
          client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;
          fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi;
          scgi_temp_path {root}/scgi; client_max_body_size 64m;
          gzip_types text/plain; gzip_min_length 100; keepalive_requests 100000;
          server {{ listen [::]:{PORT} ipv6only=off; {locations} }}
          server {{ listen [::]:{HTTP2_PORT} ipv6only=off http2; {locations} }}
        }}"
    );
    let path = directory.join("nginx.conf");
    std::fs::write(&path, configuration).expect("write a configuration");
    let server = Program::new("/usr/sbin/nginx")
        .args(["-p", &root, "-c", &text(&path), "-e", "stderr"])
        .start(&mesh.pod(pod).namespace)
        .expect("nginx (Debian: nginx-light)");
    listens(mesh, pod, PORT);
    server
}

/// Waits until somebody listens in the pod; over its loopback, which no proxy sees.
fn listens(mesh: &Mesh, pod: &str, port: u16) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    mesh.pod(pod).namespace.run(|| {
        wait::until(&format!("a listener on {address} of {pod}"), LIMIT, || {
            TcpStream::connect(address).ok()
        })
    });
}

const LOCATIONS: &str = "
    location /gzip/ { gzip on; alias small.txt; try_files /large.txt =404; }
    location /status/ { add_header X-Case Kept always; return 418 'short and stout'; }
    location /moved { return 301 /small.txt; }
    location /empty { return 204; }
    location /echo { client_body_buffer_size 64m; add_header X-Length $content_length; return 200 ok; }";

pub(super) fn curl() {
    let plan = || client_and_server([PORT, HTTP2_PORT]);
    same("curl", plan, |mesh| {
        let _nginx = nginx(mesh, "server", LOCATIONS);
        let address = mesh.service("server").addresses;
        let large: Vec<u8> = vec![b'x'; 3 << 20];
        let mut lines = Vec::new();
        for (port, version) in [(PORT, "--http1.1"), (HTTP2_PORT, "--http2-prior-knowledge")] {
            let run = |arguments: &[&str], path: &str| {
                let url = format!("http://{}:{port}{path}", address.v4);
                let program = Program::new("curl")
                    .args([
                        "-sS",
                        "-m",
                        "30",
                        "-i",
                        version,
                        "-w",
                        " %{http_code} %{num_redirects}",
                    ])
                    .args(arguments)
                    .arg_url(&url)
                    .input(large.clone());
                format!("{arguments:?} {path}\n{}", without_hops(&client(mesh, program)))
            };
            for (arguments, path) in [
                (&[][..], "/small.txt"),
                (&["-I"], "/small.txt"),
                (&[], "/large.txt"),
                (&["-r", "10-29"], "/large.txt"),
                (&["-r", "10-19,100-119"], "/nothing-here"),
                (&["-H", "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"], "/small.txt"),
                (&["--compressed"], "/gzip/"),
                (&[], "/moved"),
                (&[], "/status/418"),
                (&[], "/empty"),
                (&["-X", "PURGE"], "/small.txt"),
                (&["-H", "X-Empty;", "-H", "x-UPPER: a"], "/small.txt"),
            ] {
                lines.push(run(arguments, path));
            }
        }
        let old = format!("http://{}:{PORT}/small.txt", address.v4);
        let old = Program::new("curl").args(["-sS", "-i", "-0", "-m", "30", &old]);
        lines.push(without_hops(&client(mesh, old)));
        // To HTTP/1 only: this nginx resets an HTTP/2 stream whose body it does not want.
        for arguments in [
            &["--data-binary", "@-"][..],
            &["--data-binary", "@-", "-H", "Expect: 100-continue"],
            &["-T", "-"],
        ] {
            let url = format!("http://{}:{PORT}/echo", address.v4);
            let program = Program::new("curl").args(["-sS", "-i", "-m", "30"]).args(arguments);
            lines.push(without_hops(&client(mesh, program.args([&url]).input(large.clone()))));
        }
        let moved = format!("http://{}:{PORT}/moved", address.v4);
        let moved = Program::new("curl").args(["-sS", "-i", "-L", "-m", "30", &moved]);
        lines.push(without_hops(&client(mesh, moved)));
        let v6 = format!("http://[{}]:{PORT}/small.txt", address.v6);
        let v6 = Program::new("curl").args(["-sS", "-i", "-g", "-m", "30", &v6]);
        lines.push(without_hops(&client(mesh, v6)));
        lines
    });
}

/// Adds the address last, where curl's `-i` and others are read first.
trait Url {
    fn arg_url(self, url: &str) -> Self;
}

impl Url for Program {
    fn arg_url(self, url: &str) -> Self {
        self.args([url])
    }
}

/// Without the day, and without what belongs to each hop.
fn without_hops(text: &str) -> String {
    let is_own = |line: &str| {
        let line = line.to_lowercase();
        ["date:", "connection: close", "connection: keep-alive", "keep-alive:"]
            .iter()
            .any(|own| line.starts_with(own))
    };
    text.split_inclusive('\n').filter(|line| !is_own(line)).collect()
}

pub(super) fn nghttp() {
    same(
        "nghttp",
        || client_and_server([PORT, HTTP2_PORT]),
        |mesh| {
            let _nginx = nginx(mesh, "server", LOCATIONS);
            let address = mesh.service("server").addresses.v4;
            let url = |path: &str| format!("http://{address}:{HTTP2_PORT}{path}");
            let nghttp = Program::new("nghttp").args(["-t", "30", "-m", "5", &url("/small.txt")]);
            let mut lines = vec![client(mesh, nghttp)];
            for (path, connections, streams) in
                [("/small.txt", "1", "1"), ("/small.txt", "10", "20"), ("/large.txt", "4", "5")]
            {
                let count = if path == "/large.txt" { "100" } else { "4000" };
                let load = Program::new("h2load").args([
                    "-n",
                    count,
                    "-c",
                    connections,
                    "-m",
                    streams,
                    &url(path),
                ]);
                let said = client(mesh, load);
                println!(
                    "h2load {path} -c {connections} -m {streams}: {}",
                    line(&said, "finished in")
                );
                lines.push(line(&said, "requests:"));
                lines.push(line(&said, "status codes:"));
            }
            // HTTP/1 by the same driver.
            let url = format!("http://{address}:{PORT}/small.txt");
            let load = Program::new("h2load").args(["--h1", "-n", "4000", "-c", "20", &url]);
            lines.push(line(&client(mesh, load), "status codes:"));
            lines
        },
    );
}

/// The line that begins so.
fn line(text: &str, begin: &str) -> String {
    text.lines().find(|line| line.starts_with(begin)).unwrap_or("missing").to_owned()
}

pub(super) fn wrk() {
    same(
        "wrk",
        || client_and_server([PORT]),
        |mesh| {
            let _nginx = nginx(mesh, "server", LOCATIONS);
            let url = format!("http://{}:{PORT}/small.txt", mesh.service("server").addresses.v4);
            // By itself it counts a request of more than 2 s as an error.
            let flags = ["-t1", "-c32", "-d2s", "--timeout", "20s", "--latency"];
            let said = client(mesh, Program::new("wrk").args(flags).args([&url]));
            for begin in ["Requests/sec", "     50%", "     99%"] {
                println!("wrk: {}", line(&said, begin));
            }
            let bad = |line: &&str| line.contains("Non-2xx") || line.contains("Socket errors");
            vec![format!("complaints: {:?}", said.lines().filter(bad).collect::<Vec<_>>())]
        },
    );
}

pub(super) fn nginx_in_the_middle() {
    let plan = || {
        let plan = Plan::new().pod("client").pod("front").pod("back");
        plan.service("front", [PORT], &["front"]).service("back", [PORT], &["back"])
    };
    same("nginx-front", plan, |mesh| {
        let site = data_directory(mesh, "site", 0);
        std::fs::write(site.join("hello.txt"), "hello from behind\n".repeat(1000)).expect("write");
        let _back = Program::new("/usr/bin/python3")
            .args(["-m", "http.server", "--directory", &text(&site), &PORT.to_string()])
            .start(&mesh.pod("back").namespace)
            .expect("python3");
        listens(mesh, "back", PORT);
        let back = mesh.service("back").addresses.v4;
        let locations = format!(
            "location / {{ proxy_pass http://{back}:{PORT}; proxy_http_version 1.1;
             proxy_set_header Connection ''; proxy_hide_header Last-Modified; }}"
        );
        let _front = nginx(mesh, "front", &locations);
        let url = format!("http://{}:{PORT}", mesh.service("front").addresses.v4);
        let get = |path: &str| {
            let url = format!("{url}{path}");
            without_hops(&client(mesh, Program::new("curl").args(["-sS", "-i", "-m", "30", &url])))
        };
        let mut lines: Vec<String> = (0..20).map(|_| get("/hello.txt")).collect();
        lines.push(get("/none.txt"));
        lines
    });
}
