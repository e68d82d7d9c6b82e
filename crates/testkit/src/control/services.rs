//! The services of the fake control plane: each asks the script.

use super::{Behaviour, Message, Shared, Topic, UNREAD_MAX};
use leno_api::applied::service::{Applied, AppliedServer};
use leno_api::applied::{self, AppliedMessage, EndedMessage};
use leno_api::outbound::service::{EncodedPolicy, OutboundPolicies, OutboundPoliciesServer};
use linkerd2_proxy_api::destination::destination_server::{Destination, DestinationServer};
use linkerd2_proxy_api::destination::{DestinationProfile, GetDestination, Update};
use linkerd2_proxy_api::identity::identity_server::{Identity, IdentityServer};
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use linkerd2_proxy_api::inbound::inbound_server_policies_server::{
    InboundServerPolicies, InboundServerPoliciesServer,
};
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use linkerd2_proxy_api::outbound::TrafficSpec;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

pub(super) async fn serve(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
) -> Result<(), tonic::transport::Error> {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let services = Services(shared);
    tonic::transport::Server::builder()
        // Every stream lives long: hyper's default of 200 on one connection would stall the 201st.
        .max_concurrent_streams(Some(100_000))
        .add_service(DestinationServer::new(services.clone()))
        .add_service(OutboundPoliciesServer::new(services.clone()))
        .add_service(InboundServerPoliciesServer::new(services.clone()))
        .add_service(IdentityServer::new(services.clone()))
        .add_service(AppliedServer::new(services, usize::MAX))
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
}

#[derive(Clone)]
struct Services(Arc<Shared>);

/// A stream whose end is told to the test, whoever ended it.
struct Told<T> {
    line: mpsc::Receiver<Result<Message, Status>>,
    unwrap: fn(Message) -> Option<T>,
    shared: Arc<Shared>,
}

impl<T> Stream for Told<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let unwrap = self.unwrap;
        self.line.poll_recv(context).map(|said| {
            Some(match said? {
                Ok(message) => unwrap(message)
                    .ok_or_else(|| Status::internal("the test says a message of another kind")),
                Err(status) => Err(status),
            })
        })
    }
}

impl<T> Drop for Told<T> {
    fn drop(&mut self) {
        self.line.close();
        self.shared.tell();
    }
}

impl Services {
    fn open<T>(
        &self,
        metadata: &MetadataMap,
        topic: Topic,
        unwrap: fn(Message) -> Option<T>,
    ) -> Result<Response<Told<T>>, Status> {
        let stream = applied::acknowledges(metadata).then(|| self.0.script().number(&topic));
        let answer = {
            let mut script = self.0.script();
            let subject = script.subjects.entry(topic.clone()).or_default();
            subject.asked += 1;
            let (line, receiver) = mpsc::channel(UNREAD_MAX);
            let told = Told { line: receiver, unwrap, shared: self.0.clone() };
            match subject.behaviour.clone() {
                None => Err(Status::not_found(format!("the test says nothing of {topic:?}"))),
                Some(Behaviour::Refuse(status)) => Err(status),
                Some(Behaviour::Stall) => {
                    subject.lines.push(line);
                    Ok(told)
                }
                Some(Behaviour::Say(message)) => {
                    line.try_send(Ok(message)).expect("a new line has room");
                    subject.lines.push(line);
                    Ok(told)
                }
            }
        };
        self.0.tell();
        let mut answer = Response::new(answer?);
        if let Some(stream) = stream {
            applied::put_stream(answer.metadata_mut(), stream);
        }
        Ok(answer)
    }
}

#[tonic::async_trait]
impl Applied for Services {
    async fn report(
        &self,
        request: Request<Streaming<AppliedMessage>>,
    ) -> Result<Response<EndedMessage>, Status> {
        let mut messages = request.into_inner();
        while let Some(message) = messages.message().await? {
            let read = applied::from_message(&message);
            for one in read.map_err(|error| Status::invalid_argument(error.to_string()))? {
                self.0.script().acknowledge(one);
            }
            self.0.tell();
        }
        Ok(Response::new(EndedMessage {}))
    }
}

#[tonic::async_trait]
impl Destination for Services {
    type GetStream = Told<Update>;
    type GetProfileStream = tokio_stream::Empty<Result<DestinationProfile, Status>>;

    async fn get(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetStream>, Status> {
        let topic = Topic::Endpoints(request.get_ref().path.clone());
        self.open(request.metadata(), topic, |message| match message {
            Message::Endpoints(update) => Some(update),
            _ => None,
        })
    }

    async fn get_profile(
        &self,
        _: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        Err(Status::unimplemented("Leno has no profiles"))
    }
}

#[tonic::async_trait]
impl OutboundPolicies for Services {
    type WatchStream = Told<EncodedPolicy>;

    async fn get(&self, _: Request<TrafficSpec>) -> Result<Response<EncodedPolicy>, Status> {
        Err(Status::unimplemented("proxies watch"))
    }

    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let asked = leno_api::outbound::read_request(request.get_ref());
        let (_, target) = asked.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let leno_api::outbound::Target::Address(target) = target else {
            return Err(Status::unimplemented("targets are addresses"));
        };
        self.open(request.metadata(), Topic::Outbound(target), |message| match message {
            Message::Outbound(policy) => Some(EncodedPolicy::from(&policy)),
            _ => None,
        })
    }
}

#[tonic::async_trait]
impl InboundServerPolicies for Services {
    type WatchPortStream = Told<Server>;

    async fn get_port(&self, _: Request<PortSpec>) -> Result<Response<Server>, Status> {
        Err(Status::unimplemented("proxies watch"))
    }

    async fn watch_port(
        &self,
        request: Request<PortSpec>,
    ) -> Result<Response<Self::WatchPortStream>, Status> {
        let asked = leno_api::inbound::read_request(request.get_ref());
        let (_, port) = asked.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.open(request.metadata(), Topic::Inbound(port), |message| match message {
            Message::Inbound(server) => Some(server),
            _ => None,
        })
    }
}

#[tonic::async_trait]
impl Identity for Services {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Status> {
        let script = self.0.script();
        let certifier = script.certifier.as_ref();
        let certifier =
            certifier.ok_or_else(|| Status::unimplemented("the test certifies nobody"))?;
        certifier(request.into_inner()).map(Response::new)
    }
}
