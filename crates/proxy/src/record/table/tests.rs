use super::*;
use leno_model::name::PeerName;

struct Bench {
    table: Table,
    batches: mpsc::Receiver<Batch>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let (outbox, batches) = mpsc::channel(4);
        Self { table: Table::new(Some(outbox)), batches, now: Instant::now() }
    }

    fn request(&self, (peer, address): &(PeerTls, IpAddr), method: &str, path: &str) {
        let parts = http::Request::builder().method(method).uri(path).body(()).unwrap();
        let (parts, ()) = parts.into_parts();
        let rule = Resource::object("policy.leno.dev", "authorizationpolicy", "shop", "web");
        let caller = Caller { address: *address, peer, port: 80 };
        if let Some(scope) = self.table.scope(caller, Outcome::Allowed, Some(&rule)) {
            self.table.request(&scope, &View::http2(&parts));
        }
    }

    fn batch(&mut self) -> Batch {
        self.now += BATCH_INTERVAL;
        self.table.sweep(self.now);
        self.batches.try_recv().unwrap_or_default()
    }
}

fn client(name: Option<&str>, address: [u8; 4]) -> (PeerTls, IpAddr) {
    let name = name.map(|name| PeerName::parse(name).unwrap());
    let peer = name.map_or(PeerTls::None, |name| PeerTls::Established(Some(name)));
    (peer, address.into())
}

fn lines(batch: &Batch) -> Vec<String> {
    let mut lines: Vec<String> = batch
        .entries
        .iter()
        .map(|(entry, count)| {
            let request = entry.request.as_ref();
            let request = request.map(|one| format!("{} {}", one.method, one.path));
            format!("{} {} {count} {}", entry.network, request.unwrap_or_default(), entry.rule)
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn requests_are_summed_by_kind() {
    let mut bench = Bench::new();
    let web = client(Some("spiffe://td/ns/shop/sa/web"), [10, 1, 2, 3]);
    for path in ["/users/1", "/users/2", "/users/1", "/users/1", "/", "/a//b"] {
        bench.request(&web, "GET", path);
    }
    bench.request(&web, "PURGE", "/");
    let rule = "authorizationpolicy shop/web";
    let expected = [
        format!("10.0.0.0/8 * / 1 {rule}"),
        format!("10.0.0.0/8 GET  1 {rule}"),
        format!("10.0.0.0/8 GET / 1 {rule}"),
        format!("10.0.0.0/8 GET /users/* 4 {rule}"),
    ];
    assert_eq!(lines(&bench.batch()), expected);
    assert_eq!(lines(&bench.batch()), [""; 0]);
    bench.request(&web, "GET", "/users/2");
    assert_eq!(lines(&bench.batch()), [format!("10.0.0.0/8 GET /users/* 1 {rule}")]);
}

#[test]
fn what_clients_send_does_not_fill_the_memory() {
    let mut bench = Bench::new();
    for number in 0..20_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        bench.request(&client(None, [11, a, b, c]), "GET", &format!("/p{number}/x{number}"));
        bench.request(
            &client(Some("spiffe://td/a"), [8, a, b, c]),
            "GET",
            &format!("/q{number}/x"),
        );
    }
    let batch = bench.batch();
    let total: u64 = batch.entries.iter().map(|(_, count)| count).sum();
    assert_eq!(total + batch.lost, 40_000);
    assert!(batch.entries.len() <= EDGES_MAX, "{}", batch.entries.len());
    assert!(bench.table.scopes.borrow().len() <= SCOPES_MAX);
    // What is idle is forgotten, and there is room again.
    (0..=IDLE_BATCHES_MAX_IF_FULL + 1).for_each(|_| drop(bench.batch()));
    bench.request(&client(None, [10, 1, 2, 3]), "GET", "/new");
    let rule = "authorizationpolicy shop/web";
    assert_eq!(lines(&bench.batch()), [format!("10.1.2.3/32 GET /new 1 {rule}")]);
}

#[test]
fn a_batch_that_nobody_takes_is_kept() {
    let mut bench = Bench::new();
    let web = client(Some("spiffe://td/a"), [10, 1, 2, 3]);
    for _ in 0..8 {
        bench.request(&web, "GET", "/");
        bench.now += BATCH_INTERVAL;
        bench.table.sweep(bench.now);
    }
    let mut counts = Vec::new();
    while let Ok(batch) = bench.batches.try_recv() {
        counts.push(batch.entries[0].1);
    }
    assert_eq!(counts, [1, 1, 1, 1]);
    assert_eq!(bench.batch().entries[0].1, 4);
}
