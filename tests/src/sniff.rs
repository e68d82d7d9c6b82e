//! Every packet that crosses the node, as bytes: what a thief on the wire would have.

use crate::namespace::Namespace;
use crate::script::find;
use anyhow::Result;
use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// `ETH_P_ALL`, in the byte order that the kernel wants it in.
const EVERY_PROTOCOL: i32 = (3_u16.to_be()) as i32;

/// Room for packets that have not been read yet.
const QUEUE_BYTES: usize = 32 << 20;

/// A capture that runs until [`Sniffer::stop`].
#[derive(Debug)]
pub struct Sniffer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Vec<u8>>>>,
}

impl Sniffer {
    /// Starts to keep every packet on every interface of the namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(namespace: &Namespace) -> Result<Self> {
        Self::start_with(|make| namespace.run(make))
    }

    /// The same in a namespace that somebody else made: an open file of it, as `/run/netns/NAME`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start_in(namespace: &File) -> Result<Self> {
        Self::start_with(|make| {
            let made = std::thread::scope(|scope| {
                let inside = || setns(namespace, CloneFlags::CLONE_NEWNET).map(|()| make());
                scope.spawn(inside).join()
            });
            made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?
        })
    }

    fn start_with(
        within: impl FnOnce(fn() -> std::io::Result<Socket>) -> std::io::Result<Socket>,
    ) -> Result<Self> {
        let mut socket = within(|| {
            Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(EVERY_PROTOCOL)))
        })?;
        socket.set_recv_buffer_size(QUEUE_BYTES)?;
        SockRef::from(&socket).set_read_timeout(Some(Duration::from_millis(50)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut packets = Vec::new();
            let mut packet = vec![0; 128 * 1024];
            let mut last = false;
            loop {
                if !last && stopping.load(Ordering::Acquire) {
                    last = true;
                    // What is still on its way arrives; then what is queued is taken and no more, for a busy wire is never silent.
                    std::thread::sleep(Duration::from_millis(50));
                    drop(socket.set_nonblocking(true));
                }
                match socket.read(&mut packet) {
                    Ok(count) => packets.push(packet[..count].to_vec()),
                    Err(_) if last => return packets,
                    Err(_) => {}
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Everything that was on the wire.
    ///
    /// # Panics
    /// Never: the capturing thread does not panic.
    pub fn stop(mut self) -> Packets {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("stopped once");
        Packets(thread.join().expect("no panic"))
    }
}

/// What was captured.
#[derive(Debug)]
pub struct Packets(pub Vec<Vec<u8>>);

impl Packets {
    /// How many packets hold these bytes.
    pub fn holding(&self, marker: &[u8]) -> usize {
        self.0.iter().filter(|packet| find(packet, marker).is_some()).count()
    }

    /// TCP payloads of IPv4 packets to this port.
    pub fn payloads_to(&self, port: u16) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(move |packet| payload_to(packet, port))
    }
}

/// Ethernet, IPv4 and TCP headers off.
fn payload_to(packet: &[u8], port: u16) -> Option<&[u8]> {
    let internet = packet.get(14..)?;
    let is_tcp = internet.first()? >> 4 == 4 && *internet.get(9)? == 6;
    let transport = internet.get(usize::from(internet[0] & 15) * 4..).filter(|_| is_tcp)?;
    let to = u16::from_be_bytes([*transport.get(2)?, *transport.get(3)?]);
    let payload = transport.get(usize::from(transport.get(12)? >> 4) * 4..)?;
    (to == port && !payload.is_empty()).then_some(payload)
}
