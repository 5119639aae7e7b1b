//! Translation of addresses and ports: what is asked for, and the choice of a free tuple.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Seed, Tuple, protocol};

/// The end whose address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names the end")]
pub enum Side {
    Source,
    Destination,
}

/// How a port is chosen if the sender's own port is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The sender's port is kept if it is free, and another one is chosen otherwise.
    #[default]
    Keep,
    /// By a hash of the tuple.
    Hash,
    /// At random.
    Random,
}

/// The translation of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The end that is translated.
    pub side: Side,
    /// The first and the last address. `None` keeps the address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// The first and the last port. For ICMP queries, these are identifiers.
    pub ports: Option<(u16, u16)>,
    /// How a port is chosen.
    pub choice: Choice,
    /// Whether a sender has the same address of the range for all its connections.
    pub persistent: bool,
}

/// The ends of a connection that are translated, as seen in its first direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sides {
    pub source: bool,
    pub destination: bool,
}

/// A tuple before and after translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The tuple that frames of this direction arrive with.
    pub from: Tuple,
    /// The tuple that frames of this direction leave with.
    pub to: Tuple,
}

/// The choice for a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    /// The tuple with which frames of the first direction leave.
    pub translated: Tuple,
    pub sides: Sides,
    /// The number of ports from which the source port was chosen.
    pub ports: Option<u32>,
}

/// Ports that are tried from one beginning. Each further beginning tries half as many.
const TRIES: [u32; 4] = [128, 64, 32, 16];

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug)]
struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    fn count(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    fn has(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    fn at(self, number: u32) -> u16 {
        self.first + (number % self.count()) as u16
    }

    /// The ports that may stand for this port: a privileged port stays one.
    fn like(tuple: &Tuple) -> Ports {
        let (first, last) = match tuple.source.port {
            _ if tuple.is_icmp() => (0, u16::MAX),
            0..512 => (1, 511),
            512..1024 => (600, 1023),
            _ => (1024, u16::MAX),
        };
        Ports { first, last }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of a range that a tuple has. `None` if the range is of another family or empty.
fn address(mapping: &Mapping, tuple: &Tuple, seed: &Seed) -> Option<Option<IpAddr>> {
    let Some((first, last)) = mapping.addresses else { return Some(None) };
    if first.is_ipv4() != tuple.source.address.is_ipv4() || first.is_ipv4() != last.is_ipv4() {
        return None;
    }
    let span = bits(last).checked_sub(bits(first))?;
    let mut chooses = *tuple;
    (chooses.source.port, chooses.destination.port) = (0, 0);
    if mapping.persistent {
        chooses.destination = chooses.source;
    }
    let hash = u128::from(seed.hash(0, &chooses));
    let number = span.checked_add(1).map_or(hash, |count| hash % count);
    let address = bits(first) + number;
    Some(Some(match first {
        IpAddr::V4(_) => Ipv4Addr::from_bits(address as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(address).into(),
    }))
}

fn has_ports(tuple: &Tuple) -> bool {
    matches!(tuple.protocol, protocol::TCP | protocol::UDP | protocol::SCTP) || tuple.is_icmp()
}

/// Sets the port of a tuple's end; for ICMP, the identifier.
fn set_port(tuple: &mut Tuple, side: Side, port: u16) {
    match side {
        Side::Destination if !tuple.is_icmp() => tuple.destination.port = port,
        _ => tuple.source.port = port,
    }
}

/// Searches a port for one end of a tuple, so that the tuple is free.
fn search(
    tuple: &mut Tuple,
    side: Side,
    ports: Ports,
    mut random: impl FnMut(usize) -> u64,
    is_free: &impl Fn(&Tuple) -> bool,
) -> bool {
    for (round, tries) in TRIES.into_iter().enumerate() {
        let begin = (random(round) >> 32) as u32 % ports.count();
        for at in 0..tries.min(ports.count()) {
            set_port(tuple, side, ports.at(begin + at));
            if is_free(tuple) {
                return true;
            }
        }
        if tries >= ports.count() {
            return false;
        }
    }
    false
}

/// Chooses the tuple with which frames of a new connection leave. `is_free` says whether the answers to a tuple belong to
/// no other connection; `salt` differs from connection to connection. `None` if no tuple of the mapping is free.
pub(crate) fn choose(
    tuple: &Tuple,
    mapping: Option<&Mapping>,
    seed: &Seed,
    salt: u64,
    is_free: impl Fn(&Tuple) -> bool,
) -> Option<Chosen> {
    let mut translated = *tuple;
    let mut sides = Sides::default();
    let mut count = None;
    if let Some(mapping) = mapping {
        let salt = if mapping.choice == Choice::Hash { 0 } else { salt };
        let random = |round: usize| seed.hash(round as u16, tuple) ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_source = mapping.side == Side::Source;
        let end = if is_source { &mut translated.source } else { &mut translated.destination };
        end.address = address(mapping, tuple, seed)?.unwrap_or(end.address);
        let own =
            if is_source || tuple.is_icmp() { translated.source.port } else { translated.destination.port };
        let asked = mapping.ports.map(|(one, other)| Ports { first: one.min(other), last: one.max(other) });
        let may_choose = has_ports(tuple) && (is_source || asked.is_some() && !tuple.is_icmp());
        if may_choose {
            let ports = asked.unwrap_or_else(|| Ports::like(tuple));
            let kept = mapping.choice == Choice::Keep && ports.has(own) && is_free(&translated);
            if !kept && !search(&mut translated, mapping.side, ports, random, &is_free) {
                // A source port may still be chosen for a translated destination.
                if is_source {
                    return None;
                }
                set_port(&mut translated, Side::Destination, ports.at((random(0) >> 32) as u32));
            }
            count = is_source.then(|| ports.count());
        }
        (sides.source, sides.destination) = (is_source, !is_source);
        if mapping.side == Side::Source && !may_choose && !is_free(&translated) {
            return None;
        }
    }
    if !is_free(&translated) {
        let random = |round: usize| seed.hash(round as u16 + 8, tuple) ^ salt;
        if !has_ports(tuple) || !search(&mut translated, Side::Source, Ports::like(tuple), random, &is_free) {
            return None;
        }
        sides.source = true;
    }
    Some(Chosen { translated, sides, ports: count })
}
