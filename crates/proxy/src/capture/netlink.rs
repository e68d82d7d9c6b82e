//! The rules in the kernel's own form: one nf_tables transaction over netlink. So the proxy's program is all that a pod's image holds.
//!
//! A transaction is a row of messages between a begin and an end; the kernel does all of it or nothing. A message is a header, the
//! address family, and attributes: length, kind, bytes (linux/netfilter/nf_tables.h). [`super::rules`] says the same as text.

use super::rules::{Chain, Hook, PortRange, Rule, Settings, TABLE, chains};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
    setsockopt, socket, sockopt,
};
use std::io;
use std::os::fd::AsRawFd;

/// Values of linux/netlink.h, linux/netfilter.h and linux/netfilter/{nfnetlink,nf_tables,nf_nat}.h.
mod kernel {
    pub(super) const BATCH_BEGIN: u16 = 0x10;
    pub(super) const BATCH_END: u16 = 0x11;
    /// The subsystem, in the upper byte of a message's type.
    pub(super) const NF_TABLES: u16 = 10;
    pub(super) const NEW_TABLE: u16 = 0;
    pub(super) const DELETE_TABLE: u16 = 2;
    pub(super) const NEW_CHAIN: u16 = 3;
    pub(super) const NEW_RULE: u16 = 6;
    pub(super) const REQUEST: u16 = 0x1;
    pub(super) const ACKNOWLEDGE: u16 = 0x4;
    pub(super) const CREATE: u16 = 0x400;
    pub(super) const APPEND: u16 = 0x800;
    pub(super) const ERROR: u16 = 0x2;
    /// The kind of an attribute that holds others.
    pub(super) const NESTED: u16 = 0x8000;
    pub(super) const FAMILY_INET: u8 = 1;
    pub(super) const FAMILY_IPV4: u8 = 2;
    pub(super) const FAMILY_IPV6: u8 = 10;
    pub(super) const HOOK_PREROUTING: u32 = 0;
    pub(super) const HOOK_OUTPUT: u32 = 3;
    /// Of destination NAT.
    pub(super) const PRIORITY: i32 = -100;
    pub(super) const ACCEPT: u32 = 1;
    pub(super) const RETURN: i32 = -5;
    pub(super) const VERDICT: u32 = 0;
    /// A register of 16 bytes.
    pub(super) const REGISTER: u32 = 1;
    pub(super) const META_INTERFACE_IN: u32 = 6;
    pub(super) const META_INTERFACE_OUT: u32 = 7;
    pub(super) const META_USER: u32 = 10;
    pub(super) const META_FAMILY: u32 = 15;
    pub(super) const META_PROTOCOL: u32 = 16;
    pub(super) const NETWORK_HEADER: u32 = 1;
    pub(super) const TRANSPORT_HEADER: u32 = 2;
    pub(super) const EQUAL: u32 = 0;
    pub(super) const TCP: u8 = 6;
    /// `NF_NAT_RANGE_PROTO_SPECIFIED`.
    pub(super) const TO_PORT: u32 = 2;
}
use kernel::*;

/// Bytes of an interface's name, zeros at its end.
const INTERFACE_BYTES: usize = 16;
/// What a socket needs beside the message in it, and what it has anyway.
const SOCKET_BYTES: usize = 128 << 10;
/// What the kernel answers to one message, and more.
const ANSWER_BYTES: usize = 64 << 10;

/// Installs the rules in the place of any that were there.
///
/// # Errors
/// What the kernel answers; nothing was changed then.
pub fn install(settings: &Settings) -> io::Result<()> {
    exchange(&installation(settings))
}

/// Removes the rules; harmless where there are none.
///
/// # Errors
/// What the kernel answers; nothing was changed then.
pub fn remove() -> io::Result<()> {
    let mut batch = Batch::new();
    batch.without_table();
    exchange(&batch.end())
}

/// The transaction, as bytes.
#[must_use]
pub fn installation(settings: &Settings) -> Vec<u8> {
    let mut batch = Batch::new();
    batch.without_table();
    batch.message(NEW_TABLE, CREATE, &text(1, TABLE));
    for Chain { name, hook, rules } in chains(settings) {
        let number = match hook {
            Hook::Prerouting => HOOK_PREROUTING,
            Hook::Output => HOOK_OUTPUT,
        };
        let hook = [number_at(1, number), attribute(2, &PRIORITY.to_be_bytes())].concat();
        let chain =
            [text(1, TABLE), text(3, name), nested(4, &hook), number_at(5, ACCEPT), text(7, "nat")];
        batch.message(NEW_CHAIN, CREATE, &chain.concat());
        for expressions in rules.iter().flat_map(expressions) {
            let list: Vec<u8> = expressions.iter().flat_map(|one| nested(1, one)).collect();
            let rule = [text(1, TABLE), text(2, name), nested(4, &list)];
            batch.message(NEW_RULE, CREATE | APPEND, &rule.concat());
        }
    }
    batch.end()
}

/// A rule as the kernel's rules: alternatives become several, each a row of expressions that all have to hold.
fn expressions(rule: &Rule) -> Vec<Vec<Vec<u8>>> {
    let tcp = || [meta(META_PROTOCOL), equals(&[TCP])];
    match rule {
        Rule::Loopback(hook) => {
            let key = match hook {
                Hook::Prerouting => META_INTERFACE_IN,
                Hook::Output => META_INTERFACE_OUT,
            };
            let mut name = [0; INTERFACE_BYTES];
            name[..2].copy_from_slice(b"lo");
            vec![vec![meta(key), equals(&name), back()]]
        }
        // A user's number is in the machine's own order, all else in the network's.
        Rule::User(user) => vec![vec![meta(META_USER), equals(&user.to_ne_bytes()), back()]],
        Rule::Ports(ranges) => {
            let one = |range: &PortRange| {
                let [protocol, is_tcp] = tcp();
                let port = payload(TRANSPORT_HEADER, 2, 2);
                vec![protocol, is_tcp, port, within(range), back()]
            };
            ranges.iter().map(one).collect()
        }
        Rule::Ipv4(nets) => {
            let nets = nets.iter().map(|net| {
                let (network, mask) = (net.network().octets(), net.netmask().octets());
                to_network(FAMILY_IPV4, 16, &network, &mask)
            });
            nets.collect()
        }
        Rule::Ipv6(nets) => {
            let nets = nets.iter().map(|net| {
                let (network, mask) = (net.network().octets(), net.netmask().octets());
                to_network(FAMILY_IPV6, 24, &network, &mask)
            });
            nets.collect()
        }
        Rule::Redirect(port) => {
            let [protocol, is_tcp] = tcp();
            let port = [number_at(1, REGISTER), nested(2, &attribute(1, &port.to_be_bytes()))];
            let to = [number_at(1, REGISTER), number_at(3, TO_PORT)];
            let (port, to) = (expression("immediate", &port), expression("redir", &to));
            vec![vec![protocol, is_tcp, port, to]]
        }
    }
}

/// To an address of this network; `offset` is where the header of its family has the destination.
fn to_network(family: u8, offset: u32, network: &[u8], mask: &[u8]) -> Vec<Vec<u8>> {
    let length = u32::try_from(network.len()).unwrap_or(0);
    let masked = [
        number_at(1, REGISTER),
        number_at(2, REGISTER),
        number_at(3, length),
        nested(4, &attribute(1, mask)),
        nested(5, &attribute(1, &vec![0; network.len()])),
    ];
    let address = payload(NETWORK_HEADER, offset, length);
    let masked = expression("bitwise", &masked);
    vec![meta(META_FAMILY), equals(&[family]), address, masked, equals(network), back()]
}

/// Loads what is known of the packet beside its bytes.
fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number_at(1, REGISTER), number_at(2, key)])
}

/// Loads bytes of a header.
fn payload(header: u32, offset: u32, length: u32) -> Vec<u8> {
    let from = [number_at(2, header), number_at(3, offset), number_at(4, length)];
    expression("payload", &[number_at(1, REGISTER), from.concat()])
}

fn equals(bytes: &[u8]) -> Vec<u8> {
    let to = nested(3, &attribute(1, bytes));
    expression("cmp", &[number_at(1, REGISTER), number_at(2, EQUAL), to])
}

fn within(range: &PortRange) -> Vec<u8> {
    let (first, last) = (range.first().to_be_bytes(), range.last().to_be_bytes());
    let bounds = [nested(3, &attribute(1, &first)), nested(4, &attribute(1, &last))];
    expression("range", &[number_at(1, REGISTER), number_at(2, EQUAL), bounds.concat()])
}

/// Ends the chain without a redirection.
fn back() -> Vec<u8> {
    let verdict = nested(2, &attribute(1, &RETURN.to_be_bytes()));
    expression("immediate", &[number_at(1, VERDICT), nested(2, &verdict)])
}

fn expression(name: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    [text(1, name), nested(2, &attributes.concat())].concat()
}

/// An attribute, filled up to a multiple of four bytes.
fn attribute(kind: u16, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len() + 4).unwrap_or(u16::MAX);
    let mut all = Vec::with_capacity(bytes.len() + 7);
    all.extend(length.to_ne_bytes());
    all.extend(kind.to_ne_bytes());
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

fn nested(kind: u16, bytes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, bytes)
}

fn number_at(kind: u16, number: u32) -> Vec<u8> {
    attribute(kind, &number.to_be_bytes())
}

fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), b"\0"].concat())
}

/// A transaction that is being written.
struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
    /// Where the flags of the last message of ours are.
    last_flags: usize,
}

impl Batch {
    fn new() -> Self {
        let mut batch = Self { bytes: Vec::new(), sequence: 0, last_flags: 0 };
        batch.push(BATCH_BEGIN, REQUEST, 0, NF_TABLES, &[]);
        batch
    }

    /// No table of ours: `delete` alone fails where there is none.
    fn without_table(&mut self) {
        self.message(NEW_TABLE, CREATE, &text(1, TABLE));
        self.message(DELETE_TABLE, 0, &text(1, TABLE));
    }

    fn message(&mut self, verb: u16, flags: u16, attributes: &[u8]) {
        self.last_flags = self.bytes.len() + 6;
        self.push((NF_TABLES << 8) | verb, REQUEST | flags, FAMILY_INET, 0, attributes);
    }

    fn push(&mut self, kind: u16, flags: u16, family: u8, resource: u16, attributes: &[u8]) {
        let length = u32::try_from(20 + attributes.len()).unwrap_or(u32::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(self.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(attributes);
        self.sequence += 1;
    }

    /// Asks for an answer to the last message: that comes when all is done, and errors come before it.
    fn end(mut self) -> Vec<u8> {
        let flags = (REQUEST | ACKNOWLEDGE).to_ne_bytes();
        for (byte, flag) in self.bytes[self.last_flags..].iter_mut().zip(flags) {
            *byte |= flag;
        }
        self.push(BATCH_END, REQUEST, 0, NF_TABLES, &[]);
        self.bytes
    }
}

/// Sends a transaction and waits for its answer, which the kernel has ready when sending returns.
fn exchange(batch: &[u8]) -> io::Result<()> {
    let protocol = SockProtocol::NetlinkNetFilter;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    // A transaction is one message to the socket: some 300 bytes for each range of ports.
    setsockopt(&socket, sockopt::SndBufForce, &(batch.len() + SOCKET_BYTES))?;
    sendto(socket.as_raw_fd(), batch, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = vec![0; ANSWER_BYTES];
    loop {
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
        match verdict(&answer[..length]) {
            Some(0) => return Ok(()),
            Some(error) => return Err(Errno::from_raw(error).into()),
            None => {}
        }
    }
}

/// The first error among these answers, as a positive number; 0 for the acknowledgement.
fn verdict(mut answers: &[u8]) -> Option<i32> {
    let number =
        |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let mut found = None;
    while let Some(length) = number(answers, 0).and_then(|length| usize::try_from(length).ok()) {
        let kind = answers.get(4..6)?;
        if kind == ERROR.to_ne_bytes() {
            let error = number(answers, 16)?.cast_signed();
            match error.checked_neg()? {
                0 => found = Some(0),
                error => return Some(error),
            }
        }
        answers = answers.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};

    #[test]
    fn the_kernel_is_heard() {
        let answer = |error: i32| {
            let mut bytes = Vec::new();
            bytes.extend(36_u32.to_ne_bytes());
            bytes.extend(ERROR.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend((-error).to_ne_bytes());
            bytes.resize(36, 0);
            bytes
        };
        assert_eq!(verdict(&answer(0)), Some(0));
        assert_eq!(verdict(&answer(2)), Some(2));
        assert_eq!(verdict(&[answer(17), answer(0)].concat()), Some(17));
        assert_eq!(verdict(&[answer(0), answer(1)].concat()), Some(1));
        for end in 0..20 {
            assert_eq!(verdict(&answer(5)[..end]), None, "{end}");
        }
        assert_eq!(verdict(&[0; 64]), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_as_a_whole() {
        let thread = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("root");
            let mut batch = Batch::new();
            batch.message(NEW_TABLE, CREATE, &text(1, TABLE));
            batch.message(NEW_RULE, CREATE, &[text(1, TABLE), text(2, "nowhere")].concat());
            let error = exchange(&batch.end()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
            // Not even the table is there: to delete it alone fails.
            let mut batch = Batch::new();
            batch.message(DELETE_TABLE, 0, &text(1, TABLE));
            assert_eq!(exchange(&batch.end()).unwrap_err().kind(), io::ErrorKind::NotFound);
        });
        thread.join().unwrap();
    }
}
