//! From our application to the mesh: where was it going, what does it carry, which endpoint, and then the bytes.

use crate::authorize::{Connection, OpenGuard};
use crate::conn::sniff::{self, Carried};
use crate::conn::{copy, dial, original_destination};
use crate::ending::Ending;
use crate::io::{Buffer, Stream, Tcp};
use crate::mesh::{Destination, Mesh};
use crate::refusal::Refusal;
use crate::request::attempts::{self, AttemptPlan};
use crate::request::decision::{self, Decision, Plan};
use crate::request::filters::Here;
use crate::request::local_reply::LocalReply;
use crate::request::mirror::{copy::Copy, send};
use crate::request::route::RouteChoice;
use crate::request::side::Side;
use crate::request::view::View;
use crate::shared::in_flight::Permit;
use crate::telemetry::{Direction, HttpLabels, HttpSeries, NoTls, TcpLabels, TlsLabel, report};
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Peer, SeriesKey};
use crate::{balance, http1, http2};
use leno_model::name::Resource;
use leno_model::policy::PeerTls;
use leno_model::route::{Distribution, Mirror, OpaqueRoutes, OutboundProtocol, pick_weighted};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// One connection of our application, start to finish.
pub async fn serve(mesh: Rc<Mesh>, tcp: Tcp) {
    // A connection that is gone already has no address.
    let socket = tcp.socket();
    let (Ok(target), Ok(client)) = (original_destination::of(socket), socket.peer_addr()) else {
        return;
    };
    let mut stream = Stream::Plain(tcp);
    let thread = &mesh.thread;
    let labels = TcpLabels::accepted(Direction::Outbound, target, TlsLabel::None(NoTls::Loopback));
    stream.count(thread.recorder.tcp(&labels));
    let mut ahead = Buffer::new();
    // Boxed, as are other rare and large steps: an idle connection must not carry the room that they need.
    let way = Box::pin(find_way(&mesh, &mut stream, &mut ahead, target)).await;
    let service = match &way {
        Ok(Way::Http1(destination) | Way::Http2(destination)) => Some(destination.parent.clone()),
        _ => None,
    };
    let connection = Connection { client, target, peer: PeerTls::None, service };
    let side = |destination| ToService { mesh: &mesh, destination, connection: &connection };
    let ended: Refusal = match way {
        Ok(Way::Http1(destination)) => {
            http1::serve(thread, &side(destination), stream, ahead).await.into()
        }
        Ok(Way::Http2(destination)) => {
            Box::pin(http2::serve(thread, &side(destination), stream, ahead)).await.into()
        }
        Ok(Way::Bytes(mut upstream)) => {
            stream.mark_busy();
            let (client, server) = ((&mut stream, ahead), (&mut upstream.stream, upstream.spoken));
            let ending = copy::copy(client, server, None).await.ending;
            upstream.outstanding.finished(Instant::now(), balance::Outcome::of_ending(ending));
            ending.into()
        }
        Err(refusal) => {
            stream.reset_on_drop();
            refusal
        }
    };
    let ends = (connection.client, connection.target);
    report::connection_ended(&thread.recorder, Direction::Outbound, ends, &ended);
}

/// How the connection goes on.
enum Way {
    Http1(Rc<Destination>),
    Http2(Rc<Destination>),
    Bytes(Upstream),
}

/// A connection for bytes.
struct Upstream {
    stream: Stream,
    /// What the server has said already.
    spoken: Buffer,
    outstanding: balance::Outstanding<Peer>,
    /// Its place among those that the Service allows.
    _permit: Option<Permit>,
}

/// Where was it going, and what does it carry?
async fn find_way(
    mesh: &Rc<Mesh>,
    client: &mut Stream,
    ahead: &mut Buffer,
    target: SocketAddr,
) -> Result<Way, Refusal> {
    if mesh.thread.is_own_listener(target) {
        return Err(Ending::Loop.into());
    }
    let destination = mesh.destination(target).await?;
    let policy = destination.policy();
    match &policy.protocol {
        OutboundProtocol::Http1(_) => Ok(Way::Http1(destination)),
        OutboundProtocol::Http2(_) | OutboundProtocol::Grpc(_) => Ok(Way::Http2(destination)),
        OutboundProtocol::Opaque(routes) | OutboundProtocol::Tls(routes) => {
            connect_bytes(mesh, &destination, routes).await.map(Way::Bytes)
        }
        OutboundProtocol::Detect { opaque, .. } => {
            let dial = || connect_bytes(mesh, &destination, opaque);
            match sniff::look(
                &mesh.thread,
                (Direction::Outbound, mesh.thread.limits.detect_max),
                (client, ahead),
                &destination.learned,
                dial,
            )
            .await?
            {
                Carried::Http1 => Ok(Way::Http1(destination)),
                Carried::Http2 => Ok(Way::Http2(destination)),
                Carried::Bytes(Some(upstream)) => Ok(Way::Bytes(upstream)),
                Carried::Bytes(None) => {
                    connect_bytes(mesh, &destination, opaque).await.map(Way::Bytes)
                }
            }
        }
    }
}

impl sniff::Dialled for Upstream {
    fn parts(&mut self) -> (&mut Stream, &mut Buffer) {
        (&mut self.stream, &mut self.spoken)
    }
}

/// Connects to an endpoint for bytes, one after the other until one accepts.
async fn connect_bytes(
    mesh: &Mesh,
    destination: &Destination,
    routes: &OpaqueRoutes,
) -> Result<Upstream, Refusal> {
    let thread: &ThreadContext = &mesh.thread;
    let rule = routes.routes.iter().find_map(|route| route.rules.first()).ok_or(Ending::NoRoute)?;
    let backend = match rule {
        Distribution::Empty => None,
        Distribution::First(backends) => backends.first(),
        Distribution::Random(weighted) => pick_weighted(weighted, thread.random.unit()),
    };
    let backend = mesh.backend(destination, backend.ok_or(Ending::BackendInvalid)?).await?;
    let limits = destination.policy().breaker.as_ref().map(|breaker| breaker.limits);
    let permit = backend.admit_connection(limits.unwrap_or_default())?;
    let bounds = (None, AttemptPlan::DEFAULT.connects_max);
    let connected =
        attempts::acquire(thread, &backend, bounds, None, Instant::now(), async |slot| {
            let _pending = backend.pending(thread)?;
            let _turn = slot.data.turn(None).await;
            let outstanding = slot.start(Instant::now());
            let direction = Direction::Outbound;
            let dialling = dial::connect(thread, direction, &slot.endpoint, dial::Carries::Bytes);
            let stream = Box::pin(dialling).await?;
            slot.connected();
            Ok((stream, outstanding))
        });
    let (_, (stream, outstanding)) = connected.await?;
    Ok(Upstream { stream, spoken: Buffer::new(), outstanding, _permit: permit })
}

/// Requests of our application to a service.
pub struct ToService<'a> {
    mesh: &'a Rc<Mesh>,
    destination: Rc<Destination>,
    connection: &'a Connection,
}

impl Side for ToService<'_> {
    fn direction(&self) -> Direction {
        Direction::Outbound
    }

    fn connection(&self) -> &Connection {
        self.connection
    }

    fn decide(&self, request: &View<'_>) -> Decision {
        let thread = &self.mesh.thread;
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let here = Here { client: &thread.config.identity, now };
        decision::outbound(&self.destination.policy(), request, &here, || thread.random.unit())
    }

    fn mirror(&self, mirror: &Arc<Mirror>, copy: Copy) {
        let (mesh, destination) = (self.mesh.clone(), self.destination.clone());
        let mirror = mirror.clone();
        let endpoints = async move { mesh.backend(&destination, &mirror.backend).await };
        send::send(&self.mesh.thread, endpoints, copy);
    }

    async fn endpoints(&self, plan: &Plan) -> Result<Rc<Backend>, Refusal> {
        let route = plan.route.as_ref().ok_or(Ending::NoRoute)?;
        self.mesh.backend(&self.destination, route.backend()).await
    }

    fn series(&self, plan: &Plan, slot: &balance::Slot<Peer>) -> Rc<HttpSeries> {
        let route = plan.route.as_ref();
        let key = SeriesKey {
            policy: route.map(RouteChoice::policy),
            route: route.map_or(0, RouteChoice::index),
        };
        slot.data.series(key, || {
            let (parent, route) = (route.map(RouteChoice::parent), route.map(RouteChoice::route));
            let labels = HttpLabels::outbound(&slot.endpoint, parent, route);
            self.mesh.thread.recorder.http(&labels)
        })
    }

    fn unreached(&self, refusal: Refusal) -> LocalReply {
        refusal.into()
    }

    /// Whether the endpoint still listens cannot be checked from here; the next connection attempt shows it.
    async fn gone(&self, _slot: &balance::Slot<Peer>) -> Option<Refusal> {
        None
    }

    /// Policy decides at the server.
    fn open<'a>(&'a self, _admitted_by: Option<&'a Resource>) -> Option<OpenGuard<'a>> {
        None
    }
}
