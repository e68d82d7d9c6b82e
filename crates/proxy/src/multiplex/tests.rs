//! Two sessions over a connection of the loopback.

use super::frame::{self, Frame, STREAMS_MAX, StreamId, WINDOW_BYTES};
use super::session::Session;
use super::stream::MultiplexedStream;
use crate::io::Stream;
use leno_runtime::drain::Drain;
use leno_runtime::tasks;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const WAIT_MAX: Duration = Duration::from_secs(10);

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (dialled.expect("connects"), accepted.expect("accepts").0)
}

/// The side that opens, what the other side is given, and how each ended.
struct Both {
    opens: Rc<Session>,
    gives: Rc<Session>,
    given: mpsc::Receiver<Stream>,
    drain: Drain,
    ended: [JoinHandle<io::Result<()>>; 2],
}

async fn both() -> Both {
    let (dialled, accepted) = pair().await;
    let (give, given) = mpsc::channel(STREAMS_MAX);
    let (opens, gives, drain) = (Session::dialled(), Session::accepted(), Drain::new());
    let (running, serving) = (opens.clone(), gives.clone());
    let opening = tasks::spawn_local("dialled", async move {
        running.run(Stream::plain(dialled), &Drain::new(), drop).await
    });
    let other = drain.clone();
    let giving = tasks::spawn_local("accepted", async move {
        let accept = |stream| give.try_send(Stream::Multiplexed(stream)).expect("room");
        serving.run(Stream::plain(accepted), &other, accept).await
    });
    Both { opens, gives, given, drain, ended: [opening, giving] }
}

impl Both {
    fn open(&self) -> Stream {
        Stream::Multiplexed(self.opens.open().expect("room for a stream"))
    }

    async fn given(&mut self) -> Stream {
        timeout(WAIT_MAX, self.given.recv()).await.expect("in time").expect("a stream")
    }
}

/// Runs a test where nothing has to be `Send`, as the data path does.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    runtime
        .expect("a runtime")
        .block_on(async { timeout(WAIT_MAX * 3, test).await.expect("in time") });
}

async fn end(stream: &mut Stream) {
    poll_fn(|context| stream.poll_shutdown(context)).await.expect("an end");
}

#[test]
fn bytes_go_both_ways_and_each_way_ends_by_itself() {
    run(async {
        let mut both = both().await;
        let mut client = both.open();
        client.write_all(b"question").await.expect("written");
        end(&mut client).await;
        let mut server = both.given().await;
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.expect("read");
        assert_eq!(heard, b"question");
        server.write_all(b"answer").await.expect("written");
        end(&mut server).await;
        heard.clear();
        client.read_to_end(&mut heard).await.expect("read");
        assert_eq!(heard, b"answer");
        assert_eq!(both.opens.open_streams(), 0);
        assert!(client.write_all(b"more").await.is_err());
    });
}

#[test]
fn a_stream_is_nothing_until_its_first_byte() {
    run(async {
        let mut both = both().await;
        let mut never = both.open();
        end(&mut never).await;
        drop(never);
        let mut client = both.open();
        client.write_all(b"x").await.expect("written");
        assert_eq!(both.given().await.read_u8().await.expect("a byte"), b'x');
        assert!(both.given.try_recv().is_err());
    });
}

#[test]
fn a_stream_that_is_dropped_is_reset() {
    run(async {
        let mut both = both().await;
        for round in 0..3 * STREAMS_MAX {
            let mut client = both.open();
            client.write_all(b"x").await.expect("written");
            let mut server = both.given().await;
            if round % 2 == 0 {
                drop(client);
                assert_eq!(server.read_u8().await.expect("what came before"), b'x');
                let error = server.read_u8().await.expect_err("reset");
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            } else {
                drop(server);
                let error = client.read_u8().await.expect_err("reset");
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                assert!(client.write_all(b"y").await.is_err());
            }
        }
        assert_eq!(both.opens.open_streams(), 0);
    });
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody_else() {
    run(async {
        let mut both = both().await;
        let mut slow = both.open();
        slow.write_all(b"s").await.expect("written");
        let mut slow_server = both.given().await;
        let mut quick = both.open();
        quick.write_all(b"q").await.expect("written");
        let mut quick_server = both.given().await;
        let flood = vec![7; 10 * WINDOW_BYTES as usize];
        let expected = flood.clone();
        let flooding = tasks::spawn_local("flood", async move {
            slow_server.write_all(&flood).await.expect("written");
            slow_server
        });
        assert_eq!(quick_server.read_u8().await.expect("a byte"), b'q');
        for byte in 0..100 {
            quick.write_u8(byte).await.expect("written");
            assert_eq!(quick_server.read_u8().await.expect("a byte"), byte);
            quick_server.write_u8(byte).await.expect("written");
            assert_eq!(quick.read_u8().await.expect("a byte"), byte);
        }
        assert!(!flooding.is_finished(), "no more than a window is taken from who is not read");
        let mut arrived = vec![0; expected.len()];
        slow.read_exact(&mut arrived).await.expect("read");
        assert!(arrived == expected);
        flooding.await.expect("written whole");
    });
}

#[test]
fn as_many_streams_as_agreed_and_no_more() {
    run(async {
        let mut both = both().await;
        let mut open: Vec<Stream> = (0..STREAMS_MAX).map(|_| both.open()).collect();
        assert!(both.opens.open().is_none());
        for stream in &mut open {
            stream.write_all(b"x").await.expect("written");
        }
        let mut given = Vec::new();
        for _ in 0..STREAMS_MAX {
            given.push(both.given().await);
        }
        open.pop();
        assert!(both.opens.open().is_some());
    });
}

#[test]
fn who_drains_serves_what_is_on_its_way_and_is_left() {
    run(async {
        let mut both = both().await;
        let mut client = both.open();
        client.write_all(b"x").await.expect("written");
        let mut server = both.given().await;
        // Opened before the other side has heard that we leave.
        let mut late = both.open();
        both.drain.start();
        late.write_all(b"late").await.expect("written");
        let mut late_server = both.given().await;
        server.write_all(b"y").await.expect("written");
        assert_eq!(client.read_u8().await.expect("an answer"), b'y');
        assert!(both.opens.open().is_none(), "nothing new is opened");
        late_server.write_all(b"z").await.expect("written");
        assert_eq!(late.read_u8().await.expect("an answer"), b'z');
        drop((client, late));
        for ended in both.ended {
            ended.await.expect("no panic").expect("ended well");
        }
    });
}

#[test]
fn a_connection_that_breaks_takes_every_stream_with_it() {
    run(async {
        let (dialled, accepted) = pair().await;
        let session = Session::dialled();
        let running = session.clone();
        let ended = tasks::spawn_local("dialled", async move {
            running.run(Stream::plain(dialled), &Drain::new(), drop).await
        });
        let mut streams: Vec<Stream> =
            (0..3).map(|_| Stream::Multiplexed(session.open().expect("room"))).collect();
        streams[0].write_all(b"x").await.expect("written");
        drop(accepted);
        for stream in &mut streams {
            assert!(stream.read_u8().await.is_err());
            assert!(stream.write_all(b"x").await.is_err());
        }
        assert!(ended.await.expect("no panic").is_err());
        assert!(session.open().is_none());
    });
}

#[test]
fn what_breaks_the_protocol_ends_the_session() {
    #[track_caller]
    fn check(frames: &[Frame<'_>], expected: &str) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame::encode(*frame, &mut bytes));
        let ended = RefCell::new(None);
        run(async {
            let (mut dialled, accepted) = pair().await;
            dialled.write_all(&bytes).await.expect("written");
            let kept = RefCell::new(Vec::<MultiplexedStream>::new());
            let accept = |stream| kept.borrow_mut().push(stream);
            let session = Session::accepted();
            ended.replace(Some(session.run(Stream::plain(accepted), &Drain::new(), accept).await));
            for stream in kept.take() {
                let mut stream = Stream::Multiplexed(stream);
                assert!(stream.write_all(b"x").await.is_err(), "its streams are cut");
            }
        });
        let error = ended.take().expect("ended").expect_err("an error");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let first = StreamId::new(3, 1);
    let piece = [7; 16 * 1000];
    check(&[Frame::Data(StreamId::new(3, 2), b"x")], "nobody has opened");
    check(&[Frame::Data(StreamId::new(3, 0), b"x")], "nobody has opened");
    check(&[Frame::End(first)], "nobody has opened");
    check(&[Frame::Reset(first)], "nobody has opened");
    check(&[Frame::Window(first, 1)], "nobody has opened");
    check(&[Frame::Leaving], "side that opens");
    check(&[Frame::Data(first, b"x"), Frame::Window(first, 1)], "more than was sent");
    check(&[Frame::Data(first, &piece); 5], "window");
    check(&[Frame::Data(first, b"x"), Frame::Data(first.next(), b"x")], "nobody has opened");
    let twice = [Frame::Data(first, b"x"), Frame::End(first), Frame::End(first)];
    check(&twice, "twice");
    let after = [Frame::Data(first, b"x"), Frame::End(first), Frame::Data(first, b"x")];
    check(&after, "ended");
}

/// A stream that ended leaves nothing behind, however many there were.
#[test]
fn places_are_used_again() {
    run(async {
        let mut both = both().await;
        for _ in 0..20 * STREAMS_MAX {
            let mut client = both.open();
            client.write_all(b"x").await.expect("written");
            drop(both.given().await);
            assert!(client.read_u8().await.is_err());
        }
        assert_eq!(both.opens.places(), (1, 1), "one place, and it is free");
        assert_eq!(both.gives.places(), (1, 0), "only who opens keeps a list of what is free");
    });
}

/// What had come when the connection broke is read, also where something was about to be written.
#[test]
fn answers_outlive_a_connection_that_cannot_be_written() {
    run(async {
        let (dialled, mut accepted) = pair().await;
        let session = Session::dialled();
        let mut first = Stream::Multiplexed(session.open().expect("room"));
        let mut second = Stream::Multiplexed(session.open().expect("room"));
        first.write_all(b"question").await.expect("noted");
        let mut answer = Vec::new();
        frame::encode(Frame::Data(StreamId::new(0, 1), b"answer"), &mut answer);
        accepted.write_all(&answer).await.expect("written");
        // Nothing can be written to this socket any more, and what came is there to be read.
        let dialled = dialled.into_std().expect("a socket");
        dialled.shutdown(std::net::Shutdown::Write).expect("shut");
        let dialled = TcpStream::from_std(dialled).expect("a socket");
        second.write_all(b"another").await.expect("noted");
        dialled.readable().await.expect("the answer is there");
        let ended = session.clone().run(Stream::plain(dialled), &Drain::new(), drop).await;
        assert!(ended.is_err());
        let mut heard = [0; 6];
        first.read_exact(&mut heard).await.expect("the answer");
        assert_eq!(&heard, b"answer");
        assert!(second.read_u8().await.is_err());
    });
}
