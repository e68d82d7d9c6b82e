//! Every limit of the control plane, with its unit.

use std::time::Duration;

/// Manifest files of all sources.
pub const FILES_MAX: usize = 65_536;
/// Changes reported by the kernel that wait to be looked at; beyond it everything is looked at.
pub const FILE_EVENTS_MAX: usize = 256;
/// A burst of edits is gathered for so long, so that it is one new inventory.
pub const FILE_EVENTS_GATHERED: Duration = Duration::from_millis(25);
/// Every file is looked at so often, whatever the kernel reports (network file systems report nothing).
pub const FILE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Problems kept and shown; the rest is counted.
pub const PROBLEMS_MAX: usize = 1_000;

/// Problems of one object, and of all policy objects, whose lines are looked for; each costs a reading of the object's text.
pub const PROBLEM_LINES_PER_OBJECT_MAX: usize = 20;
pub const PROBLEM_LINES_MAX: usize = 200;
/// The message of a problem of a policy object.
pub const PROBLEM_BYTES_MAX: usize = 2_048;
/// Names of objects and namespaces, as in Kubernetes.
pub const NAME_BYTES_MAX: usize = 253;
/// Conditions of one label selector.
pub const SELECTOR_CONDITIONS_MAX: usize = 64;
/// How many Servers the selectors of a namespace's ServerAuthorizations are held against.
pub const SELECTOR_COMPARISONS_MAX: usize = 1_000_000;

/// What a change left in the heap goes back to the system so long after it, once no stream holds the last world any more.
pub const MEMORY_KEPT_MAX: Duration = Duration::from_secs(5);

/// Connections of proxies with a certificate at once: 20,000 proxies, and those that connect again before the last
/// connection is known to be dead.
pub const CONNECTIONS_MAX: usize = 24_576;
/// Connections in their handshake or without a client certificate at once; each lasts some seconds.
pub const NAMELESS_CONNECTIONS_MAX: usize = 1_024;
/// Of these, from one source address.
pub const NAMELESS_PER_SOURCE_MAX: usize = 128;
/// Streams open on a connection without client certificate: it asks for one certificate.
pub const NAMELESS_STREAMS_MAX: u32 = 1;
/// Connections of one identity for each of its pods. Linkerd's proxies have three.
pub const CONNECTIONS_PER_POD_MAX: usize = 4;
/// Connections that each identity may have beyond that.
pub const CONNECTIONS_SPARE: usize = 16;
/// A listener that closes connections at its limit warns about it so often.
pub const DOOR_WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Streams open on one connection: one per destination and port that a proxy uses.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 2_048;
/// A request message; the largest is a certificate request with its token.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Request headers.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Endpoints in one message of a destination stream, so that no message nears a client's usual limit of 4 MiB.
pub const ENDPOINTS_PER_MESSAGE_MAX: usize = 512;
/// A client that opened a connection has so long for its TLS handshake.
pub const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(5);
/// A connection without client certificate is for asking for the first one, and ends after this.
pub const NAMELESS_CONNECTION_MAX: Duration = Duration::from_secs(2);
/// A quiet connection is asked for a sign of life so often.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// The sign of life must come within this.
pub const KEEP_ALIVE_WAIT_MAX: Duration = Duration::from_secs(20);
/// After SIGTERM, streams have so long to end.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Connections to the admin listener at once.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Head of an admin request.
pub const ADMIN_HEAD_BYTES_MAX: usize = 8 << 10;
/// The head of an admin request must be complete within this.
pub const ADMIN_HEAD_WAIT_MAX: Duration = Duration::from_secs(2);
/// An admin answer must be taken within this.
pub const ADMIN_WAIT_MAX: Duration = Duration::from_secs(5);

/// So much of the identity that a refused request asked for is logged.
pub const LOGGED_BYTES_MAX: usize = 256;
/// A workload token larger than this is not looked at.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Tokens about which the API server is asked at once.
pub const REVIEWS_MAX: usize = 32;
/// Tokens that are asked about or wait for it; a proxy that is turned away asks again, later each time.
pub const REVIEWS_WAITING_MAX: usize = 1_024;
/// A token waits so long for its turn and its answer.
pub const REVIEW_WAIT_MAX: Duration = Duration::from_secs(5);

/// An object that is followed by name: so long is the answer to a question waited for.
pub const FOLLOWED_QUIET_MAX: Duration = Duration::from_secs(15);
/// The API server ends each such watch after this; the next one goes on where it ended.
pub const FOLLOWED_WATCH_SECONDS: u32 = 240;

/// Objects in one page of a list from the API server, to which a page costs most of a second whatever is in it.
pub const LIST_PAGE_OBJECTS: u32 = 2_000;
/// A page, or a line of a watch, larger than this is not read; etcd's own limit for one object is 1.5 MiB.
pub const CLUSTER_BODY_BYTES_MAX: usize = 64 << 20;
/// Events of the API server that wait to be taken in; beyond it the watches wait.
pub const CLUSTER_EVENTS_MAX: usize = 256;
/// A burst of events is gathered for so long, so that it is one new inventory.
pub const CLUSTER_EVENTS_GATHERED: Duration = Duration::from_millis(10);
/// The API server ends a watch after this, and it is taken up where it ended.
pub const WATCH_LIFE: Duration = Duration::from_secs(290);
/// A watch without a message for this time may be dead, and restarts at its last version. Most API servers send bookmarks every 45 to
/// 75 s. A restarted one sends none for custom kinds, and one with an old etcd sends none for kinds that do not change.
pub const WATCH_SILENCE_MAX: Duration = Duration::from_secs(90);
/// The API server must answer a request within this.
pub const CLUSTER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Kinds that the API server does not know (a Gateway API that is not installed) are asked for so often.
pub const KIND_ABSENT_INTERVAL: Duration = Duration::from_secs(10);

/// Connections to the webhook at once; an API server keeps a few.
pub const WEBHOOK_CONNECTIONS_MAX: usize = 1_024;
/// The first request on a connection to the webhook must begin within this.
pub const WEBHOOK_FIRST_WAIT_MAX: Duration = Duration::from_secs(5);
/// A connection to the webhook may be quiet for so long.
pub const WEBHOOK_IDLE_MAX: Duration = Duration::from_secs(90);
/// Bytes of reviews that are held at once; more wait.
pub const ADMISSION_BYTES_AT_ONCE_MAX: usize = 32 << 20;
/// A review has its answer within this, body and all; the API server waits for 5 s.
pub const ADMISSION_WAIT_MAX: Duration = Duration::from_secs(4);
/// The API server is asked about a Namespace for so long.
pub const NAMESPACE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Namespaces about which the API server is asked at once.
pub const NAMESPACES_ASKED_MAX: usize = 16;
/// Any write to the API server.
pub const API_WAIT_MAX: Duration = Duration::from_secs(10);
/// Status updates of routes in a second, so that a thousand routes do not overload the API server.
pub const STATUS_WRITES_PER_SECOND_MAX: u32 = 20;
/// Events made in a minute.
pub const EVENTS_PER_MINUTE_MAX: u32 = 30;
/// Problems whose Events are remembered.
pub const EVENTS_KNOWN_MAX: usize = 2_000;

/// Kinds of traffic that the record has of one workload, and of all: some hundred bytes each, so 50 MiB at most.
pub const RECORD_ENTRIES_PER_WORKLOAD_MAX: usize = 2_000;
pub const RECORD_ENTRIES_MAX: usize = 100_000;
/// The record counts in slots of this length.
pub const RECORD_SLOT: Duration = Duration::from_secs(300);
/// Reports of one pod's proxy in a minute: twelve, some of them in several messages.
pub const RECORD_REPORTS_PER_POD_MINUTE_MAX: usize = 120;
/// A replica gives its part of an answer within this.
pub const REPLICA_WAIT_MAX: Duration = Duration::from_secs(2);
/// Other replicas that are asked at once.
pub const REPLICAS_MAX: usize = 16;
/// Questions that go to other replicas at once; more wait.
pub const REPLICA_QUESTIONS_MAX: usize = 2;
/// A part of an answer: 100,000 kinds of traffic are about 20 MB.
pub const REPLICA_PART_BYTES_MAX: usize = 24 << 20;
/// What an operator may send to be simulated.
pub const ADMIN_BODY_BYTES_MAX: usize = 1 << 20;
/// Messages of one report of applied configuration in a second. A proxy gathers for 10 ms, so it sends at most 100.
pub const APPLIED_MESSAGES_PER_SECOND_MAX: u32 = 200;
/// Encoded answers that streams share while the world stays as it is.
pub const SHARED_ANSWERS_BYTES_MAX: usize = 16 << 20;
