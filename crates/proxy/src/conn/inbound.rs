//! From the mesh (or from outside it) to our application: who is it, may they, what does it carry, and then the bytes.

use crate::authorize::{self, Connection, Decided, OpenGuard};
use crate::conn::handshakes::UNFINISHED_MAX;
use crate::conn::sniff::{self, Carried};
use crate::conn::transport_header::{self, Decoded};
use crate::conn::{copy, dial, local_listener, original_destination};
use crate::ending::Ending;
use crate::io::{Buffer, Stream, Tcp};
use crate::listen::{Around, Places};
use crate::mesh::{Mesh, Port};
use crate::multiplex::Session;
use crate::refusal::Refusal;
use crate::request::decision::{Decision, Plan};
use crate::request::local_reply::LocalReply;
use crate::request::side::Side;
use crate::request::view::View;
use crate::telemetry::{Direction, HttpLabels, HttpSeries, TcpLabels, TlsLabel, Transport, report};
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Peer};
use crate::{balance, http1, http2};
use leno_model::name::{DnsName, Resource};
use leno_model::policy::{InboundProtocol, PeerTls};
use leno_model::route::RequestView as _;
use leno_runtime::tasks;
use leno_tls::hello::{self, Hello};
use leno_tls::{Alpn, Refused};
use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// So long is the rest of what may be a ClientHello waited for: time for packets that are lost three times over. What begins
/// like TLS and is none reaches the application after this.
const HELLO_REST_MAX: Duration = Duration::from_secs(3);

/// Who is on the other side, and what it came for.
struct Arrived {
    stream: Stream,
    /// What was read of the stream already.
    ahead: Buffer,
    peer: PeerTls,
    /// Our application's address.
    target: SocketAddr,
    /// The other proxy has said that these are bytes.
    bytes: bool,
    /// It carries many connections.
    shared: bool,
    /// Our application, dialled while the client was silent.
    early: Option<Upstream>,
}

impl Arrived {
    fn new(stream: Stream, ahead: Buffer, peer: PeerTls, target: SocketAddr) -> Self {
        Self { stream, ahead, peer, target, bytes: false, shared: false, early: None }
    }

    fn count(&mut self, thread: &ThreadContext) {
        let tls = TlsLabel::from_client(&self.peer);
        let labels = TcpLabels::accepted(Direction::Inbound, self.target, tls);
        self.stream.count(thread.recorder.tcp(&labels));
    }
}

/// One connection from outside, start to finish.
pub async fn serve(mesh: Rc<Mesh>, places: Rc<Places>, tcp: Tcp) {
    // A connection that is gone already has no address.
    let socket = tcp.socket();
    let (Ok(target), Ok(client)) = (original_destination::of(socket), socket.peer_addr()) else {
        return;
    };
    let client = original_destination::canonical(client);
    let mut target = target;
    let ended = match Box::pin(identify(&mesh, tcp, &mut target, client)).await {
        Ok(mut arrived) => {
            arrived.count(&mesh.thread);
            match arrived.shared {
                false => admitted(&mesh, arrived, client).await,
                true => Box::pin(unfold(&mesh, &places, arrived, client)).await,
            }
        }
        Err(refusal) => refusal,
    };
    report::connection_ended(&mesh.thread.recorder, Direction::Inbound, (client, target), &ended);
}

/// A connection that is many: each is served as if it had come by itself.
async fn unfold(
    mesh: &Rc<Mesh>,
    places: &Rc<Places>,
    arrived: Arrived,
    client: SocketAddr,
) -> Refusal {
    let Arrived { stream, peer, target, .. } = arrived;
    let around = Around::new(places, client.ip(), stream.place());
    let accept = |stream| {
        // Dropped where there is no room, which resets it.
        let Some(place) = around.enter() else { return };
        let (mesh, peer) = (mesh.clone(), peer.clone());
        let stream = Stream::Multiplexed(stream);
        tasks::spawn_local("inbound stream", async move {
            let _held = (place, mesh.thread.drain.guard());
            let arrived = Arrived::new(stream, Buffer::new(), peer, target);
            let ended = admitted(&mesh, arrived, client).await;
            let recorder = &mesh.thread.recorder;
            report::connection_ended(recorder, Direction::Inbound, (client, target), &ended);
        });
    };
    match Session::accepted().run(stream, &mesh.thread.drain, accept).await {
        Ok(()) => Ending::Complete.into(),
        Err(error) => match Refused::of(&error) {
            Refused::Io(std::io::ErrorKind::InvalidData) => {
                Refusal::because(Ending::MalformedRequest, format!("shared connection: {error}"))
            }
            Refused::Io(_) | Refused::Closed => Ending::ClientReset.into(),
            refused => Refusal::because(Ending::TlsRefused, refused.to_string()),
        },
    }
}

/// May they, and how does it go on?
async fn admitted(mesh: &Rc<Mesh>, mut arrived: Arrived, client: SocketAddr) -> Refusal {
    let thread = &mesh.thread;
    match Box::pin(find_way(mesh, &mut arrived, client)).await {
        Ok((way, hop)) => {
            let Arrived { mut stream, ahead, .. } = arrived;
            match way {
                Way::Http1 => http1::serve(thread, &hop, stream, ahead).await.into(),
                Way::Http2 => Box::pin(http2::serve(thread, &hop, stream, ahead)).await.into(),
                Way::Bytes(mut upstream) => {
                    stream.mark_busy();
                    let server = (&mut upstream.stream, upstream.spoken);
                    let copied = copy::copy((&mut stream, ahead), server, hop.open(None)).await;
                    copied.denied.unwrap_or_else(|| copied.ending.into())
                }
            }
        }
        Err(refusal) => {
            arrived.stream.reset_on_drop();
            refusal
        }
    }
}

/// How the connection goes on.
enum Way {
    Http1,
    Http2,
    Bytes(Upstream),
}

struct Upstream {
    stream: Stream,
    spoken: Buffer,
}

impl sniff::Dialled for Upstream {
    fn parts(&mut self) -> (&mut Stream, &mut Buffer) {
        (&mut self.stream, &mut self.spoken)
    }
}

/// Takes TLS that is for us; everything else stays as it came.
async fn identify(
    mesh: &Rc<Mesh>,
    tcp: Tcp,
    target: &mut SocketAddr,
    client: SocketAddr,
) -> Result<Arrived, Refusal> {
    let thread: &ThreadContext = &mesh.thread;
    let direct = target.port() == thread.inbound_port();
    let mut stream = Stream::Plain(tcp);
    let mut ahead = Buffer::new();
    let mut early = None;
    let port = if direct { None } else { Some(mesh.port(target.port()).await?) };
    let silence_max = match &port {
        Some(port) => silence_max(thread, port),
        // Only another proxy comes here, and it sends its ClientHello at once.
        None => Some(thread.limits.first_byte_max),
    };
    let mut heard = hear(thread, (&mut stream, &mut ahead), *target, silence_max).await?;
    if let (Heard::Nothing, Some(port)) = (heard, port) {
        let hop = ToApplication::new(
            mesh,
            port,
            Connection { client, target: *target, peer: PeerTls::None, service: None },
        );
        early = early_upstream(thread, (&mut stream, &mut ahead), &hop).await?;
        heard = match ahead.is_empty() {
            true => Heard::Other,
            false => hear(thread, (&mut stream, &mut ahead), *target, None).await?,
        };
    }
    if heard != Heard::Ours {
        // A peer that connects to the mesh port and closes without sending anything is not an error: health checks do this.
        return match direct {
            true if ahead.is_empty() => Err(Ending::ClientClosed.into()),
            true => Err(Ending::Loop.into()),
            false => Ok(Arrived { early, ..Arrived::new(stream, ahead, PeerTls::None, *target) }),
        };
    }
    let Stream::Plain(mut tcp) = stream else { unreachable!("nothing was accepted yet") };
    tcp.unread(ahead);
    let unfinished = thread.handshakes.begin(client.ip()).ok_or_else(|| {
        let text = format!("the client's address has {UNFINISHED_MAX} unfinished TLS handshakes");
        Refusal::because(Ending::SourceLimit, text)
    })?;
    let accepted = Box::pin(accept(thread, tcp, *target)).await?;
    unfinished.finish();
    let mut stream = Stream::Accepted(Box::new(accepted.stream));
    if let Some(place) = stream.place() {
        place.trust();
    }
    let mut ahead = Buffer::new();
    let mut bytes = false;
    if accepted.alpn == Alpn::Transport {
        let header = transport_port(&mut stream, &mut ahead);
        let late =
            |_| Refusal::because(Ending::HeadTimeout, "the transport header did not come in time");
        let header = tokio::time::timeout(thread.limits.first_byte_max, header);
        let (port, is_http) = header.await.map_err(late)??;
        if thread.config.is_own_port(port) {
            return Err(Ending::Loop.into());
        }
        target.set_port(port);
        bytes = !is_http;
    } else if direct {
        return Err(Ending::Loop.into());
    }
    let peer = PeerTls::Established(accepted.peer);
    let shared = accepted.alpn == Alpn::Multiplex;
    Ok(Arrived { bytes, shared, ..Arrived::new(stream, ahead, peer, *target) })
}

/// How long a silent client is waited for; for ever where the client is certain to speak first.
fn silence_max(thread: &ThreadContext, port: &Port) -> Option<Duration> {
    match port.policy.get().protocol {
        InboundProtocol::Http1 | InboundProtocol::Http2 | InboundProtocol::Grpc => None,
        _ if port.learned.is_http() => None,
        _ => Some(thread.limits.detect_max),
    }
}

/// The first words of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// A ClientHello that asks for our own name.
    Ours,
    /// Anything else.
    Other,
    /// Silence.
    Nothing,
}

/// Reads until it is clear whether a ClientHello asks for our own name. A ClientHello for another identity is rejected.
async fn hear(
    thread: &ThreadContext,
    (stream, ahead): (&mut Stream, &mut Buffer),
    target: SocketAddr,
    silence_max: Option<Duration>,
) -> Result<Heard, Refusal> {
    loop {
        match hello::sni(ahead.filled()) {
            Hello::Sni(Some(name)) if is_ours(thread, &name) => return Ok(Heard::Ours),
            Hello::Sni(Some(name)) if hello::is_identity(&name) => {
                return Err(Box::pin(turn_away(thread, stream, target, name)).await);
            }
            Hello::Sni(_) | Hello::NotTls => return Ok(Heard::Other),
            Hello::Incomplete => {}
        }
        let wait = match ahead.is_empty() {
            true => silence_max,
            false => Some(HELLO_REST_MAX.min(thread.limits.handshake_max)),
        };
        let more = sniff::more(stream, ahead, hello::HELLO_BYTES_MAX);
        let read = match wait {
            None => Ok(more.await),
            Some(wait) => tokio::time::timeout(wait, more).await,
        };
        match read {
            Err(_) if ahead.is_empty() => return Ok(Heard::Nothing),
            Ok(Ok(0)) | Err(_) => return Ok(Heard::Other),
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Err(Ending::ClientReset.into()),
        }
    }
}

fn is_ours(thread: &ThreadContext, name: &DnsName) -> bool {
    thread.credentials().credential().dns_names().contains(name)
}

/// The other proxy expects another workload: its discovery is late, the address now belongs to another pod, or the proxy is of another
/// mesh. Our application could not answer in a useful way. A TLS alert tells the proxy what is wrong, and it uses another endpoint.
async fn turn_away(
    thread: &ThreadContext,
    stream: &mut Stream,
    target: SocketAddr,
    asked: DnsName,
) -> Refusal {
    let ours = thread.credentials().credential().identity().clone();
    let refused = Refused::OtherAsked { asked, ours };
    report::tls_refused(&thread.recorder, Direction::Inbound, target, &refused);
    // The client may be gone already; then errors do not matter.
    let _told = dial::send(stream, &hello::UNRECOGNIZED_NAME).await;
    let _told = poll_fn(|context| stream.poll_shutdown(context)).await;
    Refusal::because(Ending::TlsRefused, refused.to_string())
}

/// The client is silent, so the application may send first, if the policy admits a client without identity. A slow client of the
/// mesh is still detected.
async fn early_upstream(
    thread: &ThreadContext,
    (stream, ahead): (&mut Stream, &mut Buffer),
    hop: &ToApplication<'_>,
) -> Result<Option<Upstream>, Refusal> {
    if let Err(refusal) = hop.verdict(Transport::Tcp) {
        let more = sniff::more(stream, ahead, hello::HELLO_BYTES_MAX);
        return match tokio::time::timeout(thread.limits.handshake_max, more).await {
            Ok(Ok(count)) if count > 0 => Ok(None),
            _ => {
                hop.count();
                hop.record_connection();
                Err(hop.noted(refusal, None))
            }
        };
    }
    sniff::listen(thread, (stream, ahead), hop.connect_bytes()).await
}

async fn accept(
    thread: &ThreadContext,
    tcp: Tcp,
    target: SocketAddr,
) -> Result<leno_tls::Connected<tokio_rustls::server::TlsStream<Tcp>>, Refusal> {
    let config = thread.credentials().server();
    leno_tls::server::accept(config, tcp, thread.limits.handshake_max).await.map_err(|refused| {
        report::tls_refused(&thread.recorder, Direction::Inbound, target, &refused);
        match refused {
            Refused::Closed | Refused::Io(_) => Ending::ClientReset.into(),
            _ => Refusal::because(Ending::TlsRefused, refused.to_string()),
        }
    })
}

/// Reads the transport header, which the other proxy sends at once: the application's port, and whether HTTP follows.
async fn transport_port(stream: &mut Stream, ahead: &mut Buffer) -> Result<(u16, bool), Refusal> {
    loop {
        match transport_header::decode(ahead.filled()) {
            Decoded::Header { port, is_http, bytes_used, .. } => {
                ahead.consume(bytes_used);
                ahead.release_if_empty();
                return Ok((port, is_http));
            }
            Decoded::Malformed(reason) => {
                return Err(Refusal::because(
                    Ending::MalformedRequest,
                    format!("transport header: {reason}"),
                ));
            }
            Decoded::Incomplete => {}
        }
        match sniff::more(stream, ahead, transport_header::HEADER_BYTES_MAX).await {
            Ok(0) => return Err(Ending::ClientClosed.into()),
            Ok(_) => {}
            Err(_) => return Err(Ending::ClientReset.into()),
        }
    }
}

/// Decides and finds out what it carries.
async fn find_way<'a>(
    mesh: &'a Rc<Mesh>,
    arrived: &mut Arrived,
    client: SocketAddr,
) -> Result<(Way, ToApplication<'a>), Refusal> {
    let port = mesh.port(arrived.target.port()).await?;
    let peer = arrived.peer.clone();
    let target = arrived.target;
    let connection = Connection { client, target, peer, service: None };
    let hop = ToApplication::new(mesh, port, connection);
    let thread: &ThreadContext = &mesh.thread;
    let policy = hop.port.policy.get();
    if let Err(refusal) = hop.verdict(Transport::Tcp) {
        if let Some(way) = denied(thread, arrived, &hop, &refusal).await {
            // Each request gets its own answer and its own count.
            return Ok((way, hop));
        }
        hop.count();
        hop.record_connection();
        return Err(hop.noted(refusal, None));
    }
    hop.count();
    let early = arrived.early.take();
    let server_spoke = early.is_some() && arrived.ahead.is_empty();
    let bytes = async || match early {
        Some(upstream) => Ok(upstream),
        None => hop.connect_bytes().await,
    };
    let way = match policy.protocol {
        _ if arrived.bytes => Way::Bytes(bytes().await?),
        InboundProtocol::Opaque | InboundProtocol::Tls => Way::Bytes(bytes().await?),
        InboundProtocol::Http1 => Way::Http1,
        InboundProtocol::Http2 | InboundProtocol::Grpc => Way::Http2,
        // The server sent first.
        InboundProtocol::Detect { .. } if server_spoke => Way::Bytes(bytes().await?),
        InboundProtocol::Detect { .. } => {
            let client = (&mut arrived.stream, &mut arrived.ahead);
            let wait = (Direction::Inbound, thread.limits.detect_max);
            match sniff::look(thread, wait, client, &hop.port.learned, || hop.connect_bytes())
                .await?
            {
                Carried::Http1 => Way::Http1,
                Carried::Http2 => Way::Http2,
                Carried::Bytes(Some(upstream)) => Way::Bytes(upstream),
                Carried::Bytes(None) => Way::Bytes(bytes().await?),
            }
        }
    };
    if matches!(way, Way::Bytes(_)) {
        hop.record_connection();
    }
    Ok((way, hop))
}

/// With HTTP, a client that is denied gets 403 for each request; otherwise its connection is closed.
async fn denied(
    thread: &ThreadContext,
    arrived: &mut Arrived,
    hop: &ToApplication<'_>,
    refusal: &Refusal,
) -> Option<Way> {
    match hop.port.policy.get().protocol {
        _ if arrived.bytes => None,
        InboundProtocol::Opaque | InboundProtocol::Tls => None,
        InboundProtocol::Http1 => Some(Way::Http1),
        InboundProtocol::Http2 | InboundProtocol::Grpc => Some(Way::Http2),
        InboundProtocol::Detect { .. } => {
            let client = (&mut arrived.stream, &mut arrived.ahead);
            let wait = (Direction::Inbound, thread.limits.detect_max);
            let dial = || async { Err::<Upstream, _>(refusal.clone()) };
            match sniff::look(thread, wait, client, &hop.port.learned, dial).await.ok()? {
                Carried::Http1 => Some(Way::Http1),
                Carried::Http2 => Some(Way::Http2),
                Carried::Bytes(_) => None,
            }
        }
    }
}

/// Requests to our application.
pub struct ToApplication<'a> {
    thread: &'a Rc<ThreadContext>,
    application: Rc<Backend>,
    port: Rc<Port>,
    connection: Connection,
    decided: RefCell<Option<Rc<Decided>>>,
}

impl<'a> ToApplication<'a> {
    fn new(mesh: &'a Rc<Mesh>, port: Rc<Port>, connection: Connection) -> Self {
        let application = mesh.application(connection.target);
        let thread = &mesh.thread;
        Self { thread, application, port, connection, decided: RefCell::default() }
    }

    /// May this client? Asked of each connection, and again of each request, as policy may have changed; decided anew
    /// only when it has.
    fn verdict(&self, transport: Transport) -> Result<(), Refusal> {
        let mut decided = self.decided.borrow_mut();
        self.port.policy.decide(self.thread, transport, &self.connection, &mut decided)
    }

    /// Counts the last verdict.
    fn count(&self) {
        self.decided.borrow().iter().for_each(|decided| decided.count());
    }

    /// The record counts the connection.
    fn record_connection(&self) {
        let decided = self.decided.borrow();
        decided.iter().for_each(|one| one.record_connection(self.thread, &self.connection));
    }

    /// The refusal with the id of its record.
    fn noted(&self, refusal: Refusal, request: Option<&View<'_>>) -> Refusal {
        let decided = self.decided.borrow();
        match &*decided {
            Some(decided) => {
                authorize::noted(self.thread, decided, &self.connection, request, refusal)
            }
            None => refusal,
        }
    }

    async fn connect_bytes(&self) -> Result<Upstream, Refusal> {
        let slot =
            self.application.pick(self.thread, Instant::now(), None).ok_or(Ending::NoEndpoints)?;
        let direction = Direction::Inbound;
        let dialling = dial::connect(self.thread, direction, &slot.endpoint, dial::Carries::Bytes);
        let stream = Box::pin(dialling).await?;
        Ok(Upstream { stream, spoken: Buffer::new() })
    }
}

impl Side for ToApplication<'_> {
    fn direction(&self) -> Direction {
        Direction::Inbound
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn decide(&self, request: &View<'_>) -> Decision {
        let verdict = self.verdict(Transport::Http);
        let decided = self.decided.borrow();
        let verdict = match decided.as_ref().filter(|decided| decided.by_request) {
            Some(decided) => {
                authorize::decide_request(self.thread, decided, &self.connection, request)
            }
            None => {
                if let Some(decided) = &*decided {
                    decided.count();
                    decided.record(self.thread, &self.connection, request);
                }
                verdict.map(|()| None)
            }
        };
        match verdict {
            Ok(route) => match decided.as_ref().map_or(Ok(()), |decided| decided.take()) {
                Ok(()) => Decision::Forward(Plan::to_application(route)),
                Err(reply) => Decision::Answer(*reply),
            },
            Err(refusal) => Decision::Answer(self.noted(refusal, Some(request)).into()),
        }
    }

    async fn endpoints(&self, _plan: &Plan) -> Result<Rc<Backend>, Refusal> {
        Ok(self.application.clone())
    }

    fn series(&self, _plan: &Plan, _slot: &balance::Slot<Peer>) -> Rc<HttpSeries> {
        let decided = self.decided.borrow();
        let decided = decided.as_ref().expect("sent only after the policy has decided");
        let Connection { target, peer, .. } = &self.connection;
        let labels = || HttpLabels::inbound(&decided.policy, *target, peer);
        let make = || self.thread.recorder.http(&labels());
        decided.series.get_or_init(make).clone()
    }

    /// The kubelet has no identity, and neither has `leno up`. Where the policy admits its probes, it says which requests those are.
    fn is_probe(&self, request: &View<'_>) -> bool {
        if self.connection.peer_name().is_some() {
            return false;
        }
        let is_prober = |agent: &str| agent.starts_with("kube-probe/") || agent == "leno-probe";
        let decided = self.decided.borrow();
        let route = decided.as_ref().and_then(|decided| decided.route_of(request));
        request.path() == "/grpc.health.v1.Health/Check"
            || request.any_header("user-agent", &mut { is_prober })
            || route.is_some_and(|route| *route.resource.name() == *"probe")
    }

    /// A header tells the other proxy that the application received nothing. Other clients do not get this header.
    fn unreached(&self, refusal: Refusal) -> LocalReply {
        let waited = refusal.ending == Ending::PendingLimit;
        match self.connection.peer {
            PeerTls::Established(_) if !waited => LocalReply::from(refusal).unreachable(),
            _ => refusal.into(),
        }
    }

    async fn gone(&self, slot: &balance::Slot<Peer>) -> Option<Refusal> {
        let address = slot.endpoint.address;
        let gone = local_listener::is_gone(address, self.thread.other_family(address)).await;
        gone.then(|| Ending::UpstreamRefused.into())
    }

    fn open<'a>(&'a self, admitted_by: Option<&'a Resource>) -> Option<OpenGuard<'a>> {
        let decided = self.decided.borrow();
        let of = (&self.connection, admitted_by);
        decided.as_ref().map(|decided| self.port.policy.open(self.thread, decided, of))
    }
}
