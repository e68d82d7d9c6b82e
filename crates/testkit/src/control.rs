//! A control plane that says what a test tells it to: the services over plain gRPC on a free port of 127.0.0.1.
//!
//! It runs on a thread and runtime of its own, so that [`ControlPlane::stop`] is as hard as a killed process.
//! What is asked about without having been set is answered NOT_FOUND. Every wait is for an event, never for a time.
//!
//! - `control/services.rs`: the gRPC services.

use leno_api::applied::Acknowledgement;
use leno_api::outbound::PolicyMessage;
use leno_model::policy::InboundPolicy;
use leno_model::route::OutboundPolicy;
use leno_model::workload::{Endpoint, EndpointUpdate};
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use linkerd2_proxy_api::{destination, inbound};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

mod services;

/// Something that a proxy asks about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// `OutboundPolicies.Watch` of an original destination.
    Outbound(SocketAddr),
    /// `Destination.Get` of a path.
    Endpoints(String),
    /// `InboundServerPolicies.WatchPort` of a port.
    Inbound(u16),
}

/// A message, as it goes over the wire.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "tests have few of them")]
pub enum Message {
    /// For [`Topic::Outbound`].
    Outbound(PolicyMessage),
    /// For [`Topic::Endpoints`].
    Endpoints(destination::Update),
    /// For [`Topic::Inbound`].
    Inbound(inbound::Server),
}

/// What happens when a stream is asked for.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "tests have few of them")]
pub enum Behaviour {
    /// It says this, and then what is pushed.
    Say(Message),
    /// It opens and stays silent until something is pushed.
    Stall,
    Refuse(Status),
}

/// Messages that a client of a test may leave unread before the test is told.
const UNREAD_MAX: usize = 1024;

type Line = mpsc::Sender<Result<Message, Status>>;
type Certifier = Box<dyn Fn(CertifyRequest) -> Result<CertifyResponse, Status> + Send>;

#[derive(Default)]
struct Subject {
    behaviour: Option<Behaviour>,
    lines: Vec<Line>,
    asked: usize,
}

#[derive(Default)]
struct Script {
    subjects: HashMap<Topic, Subject>,
    certifier: Option<Certifier>,
    /// By the number of the stream, from 1.
    numbered: Vec<Topic>,
    /// The newest acknowledgement of each topic.
    acknowledged: HashMap<Topic, Acknowledgement>,
}

impl Script {
    /// The number of a new stream.
    fn number(&mut self, topic: &Topic) -> u64 {
        self.numbered.push(topic.clone());
        self.numbered.len() as u64
    }

    fn acknowledge(&mut self, one: Acknowledgement) {
        let at = usize::try_from(one.stream).unwrap_or(usize::MAX).wrapping_sub(1);
        if let Some(topic) = self.numbered.get(at) {
            self.acknowledged.insert(topic.clone(), one);
        }
    }
}

/// What the services and the test share.
#[derive(Default)]
struct Shared {
    script: Mutex<Script>,
    changed: watch::Sender<u64>,
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }
}

/// The control plane; it ends when it is dropped.
pub struct ControlPlane {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ControlPlane {
    /// A control plane that listens.
    #[must_use]
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound listener");
        let running = Some(serve(listener, shared.clone()));
        Self { address, shared, running }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As a URI for tonic's `Endpoint`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills it: the listener and every connection are gone when this returns. What was set stays set.
    pub fn stop(&mut self) {
        if let Some(Running { stop, thread }) = self.running.take() {
            drop(stop);
            thread.join().expect("the control plane's thread");
        }
    }

    /// Listens again where it listened before.
    pub fn start_again(&mut self) {
        let socket = TcpListener::bind(self.address).expect("the port of a moment ago");
        self.running = Some(serve(socket, self.shared.clone()));
    }

    /// What happens to streams about this from now on; what is open is left alone.
    pub fn behave(&self, topic: Topic, behaviour: Behaviour) {
        self.shared.script().subjects.entry(topic).or_default().behaviour = Some(behaviour);
    }

    /// Says this on every open stream about it.
    pub fn push(&self, topic: &Topic, message: &Message) {
        if let Some(subject) = self.shared.script().subjects.get_mut(topic) {
            for line in &subject.lines {
                if let Err(mpsc::error::TrySendError::Full(_)) = line.try_send(Ok(message.clone()))
                {
                    panic!("{UNREAD_MAX} messages about {topic:?} are unread");
                }
            }
        }
    }

    /// Says the policy on open streams and on those to come.
    pub fn set_outbound(&self, target: SocketAddr, policy: &OutboundPolicy) {
        let message = leno_api::outbound::to_message(policy).expect("a policy that can be said");
        self.set(Topic::Outbound(target), Message::Outbound(message));
    }

    /// Says the policy on open streams and on those to come.
    pub fn set_inbound(&self, port: u16, policy: &InboundPolicy) {
        self.set(Topic::Inbound(port), Message::Inbound(leno_api::inbound::to_message(policy)));
    }

    /// What a stream to come begins with: all endpoints. Open streams hear of it through [`Self::push_endpoints`].
    pub fn set_endpoints(&self, path: &str, endpoints: &[Endpoint]) {
        let all = leno_api::destination::to_message(&EndpointUpdate::Add(endpoints.to_vec()));
        let topic = Topic::Endpoints(path.to_owned());
        self.behave(topic, Behaviour::Say(Message::Endpoints(all)));
    }

    /// Says a change on open streams.
    pub fn push_endpoints(&self, path: &str, update: &EndpointUpdate) {
        let message = Message::Endpoints(leno_api::destination::to_message(update));
        self.push(&Topic::Endpoints(path.to_owned()), &message);
    }

    fn set(&self, topic: Topic, message: Message) {
        self.push(&topic, &message);
        self.behave(topic, Behaviour::Say(message));
    }

    /// Ends open streams about this in order.
    pub fn end_streams(&self, topic: &Topic) {
        if let Some(subject) = self.shared.script().subjects.get_mut(topic) {
            subject.lines.clear();
        }
    }

    /// Breaks open streams about this with an error.
    pub fn break_streams(&self, topic: &Topic, status: &Status) {
        if let Some(subject) = self.shared.script().subjects.get_mut(topic) {
            for line in subject.lines.drain(..) {
                // A client that is gone needs no error.
                let _ = line.try_send(Err(status.clone()));
            }
        }
    }

    /// Answers certificate requests from now on; without it they are UNIMPLEMENTED.
    pub fn certify_with(
        &self,
        certifier: impl Fn(CertifyRequest) -> Result<CertifyResponse, Status> + Send + 'static,
    ) {
        self.shared.script().certifier = Some(Box::new(certifier));
    }

    /// How often a stream about this was asked for.
    #[must_use]
    pub fn asked(&self, topic: &Topic) -> usize {
        self.shared.script().subjects.get(topic).map_or(0, |subject| subject.asked)
    }

    /// The messages of the newest stream about this that are acknowledged, and whether the last one was rejected.
    #[must_use]
    pub fn acknowledged(&self, topic: &Topic) -> Option<(u64, bool)> {
        let script = self.shared.script();
        script.acknowledged.get(topic).map(|one| (one.messages, one.is_rejected))
    }

    /// Ready when this is acknowledged: so many messages, and whether the last one was rejected.
    pub async fn wait_acknowledged(&self, topic: &Topic, expected: (u64, bool)) {
        self.wait(|| self.acknowledged(topic) == Some(expected)).await;
    }

    /// How many streams about this are open.
    #[must_use]
    pub fn open(&self, topic: &Topic) -> usize {
        let script = self.shared.script();
        let subject = script.subjects.get(topic);
        subject.map_or(0, |subject| subject.lines.iter().filter(|line| !line.is_closed()).count())
    }

    /// Ready when streams about this were asked for at least so often.
    pub async fn wait_asked(&self, topic: &Topic, count: usize) {
        self.wait(|| self.asked(topic) >= count).await;
    }

    /// Ready when so many streams about this are open.
    pub async fn wait_open(&self, topic: &Topic, count: usize) {
        self.wait(|| self.open(topic) == count).await;
    }

    async fn wait(&self, condition: impl Fn() -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !condition() {
            changed.changed().await.expect("the sender is ours");
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves on a thread and runtime of its own: with the runtime, every connection ends.
fn serve(listener: TcpListener, shared: Arc<Shared>) -> Running {
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                _ = stopped => {}
                served = services::serve(listener, shared.clone()) => served.expect("a server"),
            }
        });
        drop(runtime);
        for subject in shared.script().subjects.values_mut() {
            subject.lines.clear();
        }
        shared.tell();
    });
    Running { stop, thread }
}
