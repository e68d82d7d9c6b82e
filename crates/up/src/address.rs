//! Addresses: which are ours, and who gets which; pure.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The node's own address: where health probes and scrapes come from.
pub const NODE_V4: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// The node's own address, IPv6.
pub const NODE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 1);
/// Every pod's next hop, the same for all (the way Calico routes pods).
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// Every pod's next hop, IPv6.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// The control plane.
pub const CONTROL: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 2);
/// The control plane's port.
pub const CONTROL_PORT: u16 = 8086;
/// Where it shows its operator's pages, on the node's loopback: pods do not reach it.
pub const CONTROL_ADMIN_PORT: u16 = 9990;
/// The resolver.
pub const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Every Service address.
pub const SERVICES_V4: &str = "10.96.0.0/16";
/// Every Service address, IPv6.
pub const SERVICES_V6: &str = "fd00:10:96::/112";

/// An IPv4 and an IPv6 address that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Numbers handed out in a ring, so that one that was given back rests as long as possible.
#[derive(Clone, Debug)]
pub struct Allocator {
    v4: u32,
    v6: u128,
    first: u16,
    last: u16,
    next: u16,
    taken: BTreeMap<u16, String>,
}

impl Allocator {
    /// For pods: 10.244.0.2 to 10.244.250.0.
    #[must_use]
    pub fn pods() -> Self {
        Self::new(
            Ipv4Addr::new(10, 244, 0, 0),
            Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0),
            2,
        )
    }

    /// For Services: 10.96.0.16 to 10.96.250.0; those below are ours.
    #[must_use]
    pub fn services() -> Self {
        Self::new(Ipv4Addr::new(10, 96, 0, 0), Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0), 16)
    }

    fn new(v4: Ipv4Addr, v6: Ipv6Addr, first: u16) -> Self {
        let taken = BTreeMap::new();
        Self { v4: v4.into(), v6: v6.into(), first, last: 64_000, next: first, taken }
    }

    /// The addresses of `owner`: the same as before while it holds them; `None` when all are taken.
    pub fn take(&mut self, owner: &str) -> Option<Pair> {
        if let Some((number, _)) = self.taken.iter().find(|(_, held)| *held == owner) {
            return Some(self.pair(*number));
        }
        let ring = (self.next..=self.last).chain(self.first..self.next);
        let number = ring.into_iter().find(|number| !self.taken.contains_key(number))?;
        self.next = if number == self.last { self.first } else { number + 1 };
        self.taken.insert(number, owner.to_owned());
        Some(self.pair(number))
    }

    /// Takes a requested IPv4 address; `None` if it is outside the range or in use.
    pub fn take_wish(&mut self, owner: &str, wish: Ipv4Addr) -> Option<Pair> {
        let number = u16::try_from(u32::from(wish).checked_sub(self.v4)?).ok()?;
        let free = self.taken.get(&number).is_none_or(|held| held == owner);
        if !free || !(self.first..=self.last).contains(&number) {
            return None;
        }
        self.release(owner);
        self.taken.insert(number, owner.to_owned());
        Some(self.pair(number))
    }

    /// Gives back what `owner` holds.
    pub fn release(&mut self, owner: &str) {
        self.taken.retain(|_, held| held != owner);
    }

    fn pair(&self, number: u16) -> Pair {
        Pair { v4: (self.v4 + u32::from(number)).into(), v6: (self.v6 + u128::from(number)).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_while_held_and_rested_afterwards() {
        let mut pods = Allocator::pods();
        let take = |pods: &mut Allocator, owner| pods.take(owner).map(|pair| pair.v4.to_string());
        assert_eq!(take(&mut pods, "a").as_deref(), Some("10.244.0.2"));
        assert_eq!(take(&mut pods, "b").as_deref(), Some("10.244.0.3"));
        assert_eq!(take(&mut pods, "a").as_deref(), Some("10.244.0.2"));
        pods.release("a");
        assert_eq!(take(&mut pods, "c").as_deref(), Some("10.244.0.4"));
        pods.next = pods.last;
        assert_eq!(take(&mut pods, "d").as_deref(), Some("10.244.250.0"));
        assert_eq!(take(&mut pods, "e").as_deref(), Some("10.244.0.2"));
    }

    #[test]
    fn wishes() {
        let mut services = Allocator::services();
        let mut wish = |owner: &str, wish: &str| {
            services.take_wish(owner, wish.parse().unwrap()).map(|pair| pair.v6.to_string())
        };
        assert_eq!(wish("a", "10.96.1.0").as_deref(), Some("fd00:10:96::100"));
        assert_eq!(wish("a", "10.96.1.0").as_deref(), Some("fd00:10:96::100"));
        assert_eq!(wish("b", "10.96.1.0"), None);
        assert_eq!(wish("b", "10.96.0.10"), None);
        assert_eq!(wish("b", "192.168.0.1"), None);
    }
}
