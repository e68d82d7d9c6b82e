//! From our application to the mesh: where was it going, what does it carry, which endpoint, and then the bytes.

use crate::conn::sniff::{self, Carried};
use crate::conn::{copy, dial, original_destination};
use crate::ending::Ending;
use crate::http1::relay::{self, Ended, Hop};
use crate::io::{Buffer, Stream};
use crate::mesh::{Destination, Worker};
use crate::request::attempts;
use crate::request::local_reply::Refusal;
use crate::request::route::{self, Choice, Kind, View};
use crate::telemetry::{Direction, HttpSeries};
use crate::upstream::Peer;
use crate::upstream::mux;
use crate::{balance, http2};
use leno_model::route::{Distribution, OpaqueRoutes, OutboundProtocol, pick_weighted};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;
use tokio::net::TcpStream;

/// One connection of our application, start to finish.
pub async fn serve(worker: Rc<Worker>, socket: TcpStream) {
    // A connection that is gone already has no address.
    let (Ok(target), Ok(client)) = (original_destination::of(&socket), socket.peer_addr()) else {
        return;
    };
    let mut stream = Stream::plain(socket);
    stream.count(worker.client_series(Direction::Outbound, target, None));
    let mut ahead = Buffer::new();
    // Boxed, as are other rare and large steps: an idle connection must not carry the room that they need.
    let way = Box::pin(find_way(&worker, &mut stream, &mut ahead, target)).await;
    let hop = |destination| ToService { worker: &worker, destination, client };
    let ended: Refusal = match way {
        Ok(Way::Http1(destination)) => {
            relay::serve(&worker, &hop(destination), stream, ahead).await.into()
        }
        Ok(Way::Http2(destination)) => {
            Box::pin(http2::serve(&worker, &hop(destination), stream, ahead)).await.into()
        }
        Ok(Way::Bytes(mut upstream)) => {
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
    worker.connection_ended(Direction::Outbound, client, target, &ended);
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
}

/// Where was it going, and what does it carry?
async fn find_way(
    worker: &Rc<Worker>,
    client: &mut Stream,
    ahead: &mut Buffer,
    target: SocketAddr,
) -> Result<Way, Refusal> {
    if worker.is_own_listener(target) {
        return Err(Ending::Loop.into());
    }
    let destination = worker.destination(target).await?;
    let policy = destination.policy();
    match &policy.protocol {
        OutboundProtocol::Http1(_) => Ok(Way::Http1(destination)),
        OutboundProtocol::Http2(_) | OutboundProtocol::Grpc(_) => Ok(Way::Http2(destination)),
        OutboundProtocol::Opaque(routes) | OutboundProtocol::Tls(routes) => {
            connect_bytes(worker, &destination, routes).await.map(Way::Bytes)
        }
        OutboundProtocol::Detect { opaque, .. } => {
            let dial = || connect_bytes(worker, &destination, opaque);
            match sniff::look(
                worker,
                (Direction::Outbound, worker.limits.detect_max),
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
                    connect_bytes(worker, &destination, opaque).await.map(Way::Bytes)
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
    worker: &Worker,
    destination: &Destination,
    routes: &OpaqueRoutes,
) -> Result<Upstream, Refusal> {
    let rule = routes.routes.iter().find_map(|route| route.rules.first()).ok_or(Ending::NoRoute)?;
    let backend = match rule {
        Distribution::Empty => None,
        Distribution::First(backends) => backends.first(),
        Distribution::Random(weighted) => pick_weighted(weighted, worker.random.unit()),
    };
    let backend = worker.backend(destination, backend.ok_or(Ending::BackendInvalid)?).await?;
    let connected = attempts::acquire(worker, &backend, None, Instant::now(), async |slot| {
        let _pending = backend.pending(worker)?;
        let _turn = slot.data.turn(None).await;
        let outstanding = slot.start(Instant::now());
        let direction = Direction::Outbound;
        let dialling = dial::connect(worker, direction, &slot.endpoint, dial::Carries::Bytes);
        let stream = Box::pin(dialling).await?;
        slot.connected();
        Ok(Upstream { stream, spoken: Buffer::new(), outstanding })
    });
    Ok(connected.await?.1)
}

/// Requests of our application to a service.
pub struct ToService<'a> {
    worker: &'a Rc<Worker>,
    destination: Rc<Destination>,
    client: SocketAddr,
}

impl Hop for ToService<'_> {
    fn direction(&self) -> Direction {
        Direction::Outbound
    }

    async fn choose(&self, request: &View<'_>, kind: Kind) -> Result<Choice, Refusal> {
        let policy = self.destination.policy();
        let ruled = route::rule(&policy, kind, request, self.worker.random.unit())?;
        let backend = self.worker.backend(&self.destination, ruled.backend()).await?;
        Ok(Choice { backend, ruled: Some(ruled) })
    }

    fn series(&self, choice: &Choice, slot: &balance::Slot<Peer>) -> Rc<HttpSeries> {
        slot.data.series(choice.series_key(), || {
            let ruled = choice.ruled.as_ref();
            self.worker.outbound_series(
                &slot.endpoint,
                ruled.map(route::Ruled::parent),
                ruled.map(route::Ruled::route),
            )
        })
    }

    fn crowd(&self, slot: &Rc<balance::Slot<Peer>>) {
        mux::begin(self.worker, slot);
    }

    async fn connect(&self, slot: &balance::Slot<Peer>) -> Result<Stream, Refusal> {
        dial::connect(self.worker, Direction::Outbound, &slot.endpoint, dial::Carries::Http).await
    }

    /// What listens on another machine cannot be seen from here; the next attempt to connect will tell.
    async fn gone(&self, _slot: &balance::Slot<Peer>) -> Option<Refusal> {
        None
    }

    fn ended(&self, request: &Ended<'_>) {
        self.worker.request_ended(Direction::Outbound, self.client, None, request);
    }
}
