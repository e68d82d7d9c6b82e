//! Whether somebody still listens on a port of our pod: what tells a program that was killed from one that only
//! dropped a connection. Asked of the kernel's table, because a connection made to find out would reach the program.

use std::cell::{Cell, RefCell};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The kernel closes what a killed program had open one by one, its listener last.
const CLOSING: Duration = Duration::from_millis(5);
/// The table is read for [`ListeningPorts`] at most this often.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// Whether nobody listens there, now or in a moment; nor on the address of the other family, where the pod has one.
pub async fn is_gone(address: SocketAddr, other_family: Option<SocketAddr>) -> bool {
    let is_silent = || !listens(address) && other_family.is_none_or(|other| !listens(other));
    if is_silent() {
        return true;
    }
    tokio::time::sleep(CLOSING).await;
    is_silent()
}

/// The ports on which programs of our pod listen, read again at most every [`READ_INTERVAL`]: where few connections are open,
/// the kernel looks through its whole table for each read, which takes most of a millisecond.
#[derive(Debug, Default)]
pub struct ListeningPorts {
    ports: RefCell<Vec<u16>>,
    read_at: Cell<Option<Instant>>,
}

impl ListeningPorts {
    /// Whether a program listens on this port now, on whatever address. Waits for the next time of reading.
    pub async fn contains(&self, port: u16) -> bool {
        let asked_at = Instant::now();
        if let Some(next) = self.read_at.get().map(|at| at + READ_INTERVAL) {
            tokio::time::sleep_until(next.into()).await;
        }
        // Another connection that waited may have read it since.
        if self.read_at.get().is_none_or(|at| at < asked_at) {
            let mut ports = self.ports.borrow_mut();
            ports.clear();
            let listed = any_listener(|listener| {
                ports.push(listener.port());
                false
            });
            // Where the table cannot be read, each port is asked about.
            self.read_at.set((!listed).then(Instant::now));
        }
        self.read_at.get().is_none() || self.ports.borrow().contains(&port)
    }
}

fn listens(address: SocketAddr) -> bool {
    any_listener(|listener| takes(listener, address))
}

/// Where the table cannot be read, somebody is taken to listen.
fn any_listener(mut is_wanted: impl FnMut(SocketAddr) -> bool) -> bool {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter().any(|table| {
        let Ok(file) = std::fs::File::open(table) else {
            return table == "/proc/self/net/tcp";
        };
        // Listeners come first, so that thousands of connections are not read.
        let lines = BufReader::new(file).lines().map_while(Result::ok).skip(1);
        lines.map_while(|line| listener(&line)).any(&mut is_wanted)
    })
}

/// Whether a listener there takes connections to this address.
fn takes(listener: SocketAddr, address: SocketAddr) -> bool {
    let (ours, theirs) = (listener.ip().to_canonical(), address.ip().to_canonical());
    let any = match ours {
        IpAddr::V4(any) => any == Ipv4Addr::UNSPECIFIED && theirs.is_ipv4(),
        // One for both families, unless it was bound to say otherwise, which this table does not show.
        IpAddr::V6(any) => any == Ipv6Addr::UNSPECIFIED,
    };
    listener.port() == address.port() && (any || ours == theirs)
}

/// The local address of a line whose socket listens: `0: 0100007F:1F90 00000000:0000 0A …`, each 32 bits of an address
/// as a number of this machine (Documentation/networking/proc_net_tcp.rst).
fn listener(line: &str) -> Option<SocketAddr> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    if state != LISTEN {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut octets = [0; 16];
            for (at, chunk) in octets.chunks_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            IpAddr::from(octets)
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_the_table() {
        let check = |line: &str, expected: Option<&str>| {
            let expected = expected.map(|address| address.parse().expect("an address"));
            assert_eq!(listener(line), expected, "{line}");
        };
        check("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00", Some("127.0.0.1:8080"));
        check("  10: 00000000:0016 00000000:0000 0A 00000000:00000000 00", Some("0.0.0.0:22"));
        check("   0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00", None);
        check(
            "   0: 00000000000000000000000001000000:0050 0:0 0A 00000000:00000000",
            Some("[::1]:80"),
        );
        check("  sl  local_address rem_address   st tx_queue", None);
        check("", None);
        check("   0: 01:1F90 00000000:0000 0A", None);
    }

    #[tokio::test]
    async fn ports_of_listening_programs() {
        let bind = || TcpListener::bind("127.0.0.1:0").expect("free");
        let port = |listener: &TcpListener| listener.local_addr().expect("bound").port();
        let listening = ListeningPorts::default();
        let first = bind();
        assert!(listening.contains(port(&first)).await);
        let read_at = listening.read_at.get();
        // A program that starts later is found, though the table was read a moment ago, and one that has gone is not.
        let (second, gone) = (bind(), port(&first));
        drop(first);
        let (found, lost) =
            tokio::join!(listening.contains(port(&second)), listening.contains(gone));
        assert_eq!((found, lost), (true, false));
        assert!(listening.read_at.get() >= read_at.map(|at| at + READ_INTERVAL));
    }

    #[test]
    fn who_takes_what() {
        let check = |listener: &str, address: &str, expected: bool| {
            let parse = |text: &str| text.parse().expect("an address");
            assert_eq!(takes(parse(listener), parse(address)), expected, "{listener} {address}");
        };
        check("0.0.0.0:80", "10.1.0.1:80", true);
        check("0.0.0.0:80", "10.1.0.1:81", false);
        check("0.0.0.0:80", "[fd00::1]:80", false);
        check("[::]:80", "10.1.0.1:80", true);
        check("[::]:80", "[fd00::1]:80", true);
        check("127.0.0.1:80", "10.1.0.1:80", false);
        check("[::ffff:10.1.0.1]:80", "10.1.0.1:80", true);
    }

    #[tokio::test]
    async fn a_listener_that_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        assert!(!is_gone(address, None).await);
        drop(listener);
        assert!(is_gone(address, None).await);
    }
}
