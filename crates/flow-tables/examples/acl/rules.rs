//! Rules for IPv4 addresses, ports and the protocol, as lists for access control have them, and packets for them.
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use flow::{Field, Flow, Key};
use flow_tables::{Change, Limits, Tables};

#[path = "../random/mod.rs"]
mod random;
use random::Random;

/// Packets of a trace.
pub const PACKETS: usize = 50_000;
const SERVICES: [u16; 12] = [22, 25, 53, 80, 123, 143, 389, 443, 445, 3306, 5060, 8080];

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, PartialEq)]
struct Prefix {
    address: u32,
    bits: u32,
}

impl Prefix {
    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - self.bits).unwrap_or(0)
    }
}

/// A rule. The first one that matches a packet counts.
#[derive(Clone, PartialEq)]
struct Rule {
    source: Prefix,
    destination: Prefix,
    ports: [RangeInclusive<u16>; 2],
    /// `None` stands for any protocol. Then the ports are any ports too, because a flow that names a port names its protocol.
    protocol: Option<u8>,
}

/// A packet.
#[derive(Clone, Copy)]
struct Packet {
    addresses: [u32; 2],
    ports: [u16; 2],
    protocol: u8,
}

/// Rules and packets.
pub struct Set {
    rules: Vec<Rule>,
    packets: Vec<Packet>,
}

impl Set {
    /// So many different rules, and packets of which nine of ten are made to match a rule.
    pub fn new(rules: usize, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let networks: Vec<u32> = (0..(rules / 40).max(4)).map(|_| random.next() as u32).collect();
        let mut set = Set { rules: Vec::new(), packets: Vec::new() };
        while set.rules.len() < rules {
            let rule = rule(&mut random, &networks);
            if !set.rules.contains(&rule) {
                set.rules.push(rule);
            }
        }
        set.packets = (0..PACKETS).map(|_| packet(&mut random, &set.rules)).collect();
        set
    }

    /// The rules as ClassBench writes them (D. Taylor and J. Turner, IEEE INFOCOM 2005).
    pub fn class_bench(&self) -> String {
        let mut text = String::new();
        for Rule { source, destination, ports: [from, to], protocol } in &self.rules {
            let [source, destination] = [source, destination]
                .map(|prefix| format!("{}/{}", Ipv4Addr::from(prefix.address), prefix.bits));
            let protocol = protocol.map_or("0x00/0x00".to_owned(), |number| format!("{number:#04x}/0xff"));
            let [from, to] = [from, to].map(|ports| format!("{} : {}", ports.start(), ports.end()));
            let _ = writeln!(text, "@{source}\t{destination}\t{from}\t{to}\t{protocol}");
        }
        text
    }

    /// The packets as ClassBench writes them.
    pub fn trace(&self) -> String {
        let line = |packet: &Packet| {
            let Packet { addresses: [from, to], ports: [source, destination], protocol } = packet;
            format!("{from}\t{to}\t{source}\t{destination}\t{protocol}\n")
        };
        self.packets.iter().map(line).collect()
    }

    /// The rules as flows of table 0, whose cookies are the places of the rules. A range of ports is several flows.
    pub fn tables(&self) -> Tables {
        let mut changes = Vec::new();
        for (place, rule) in self.rules.iter().enumerate() {
            for source in masked(&rule.ports[0]) {
                for destination in masked(&rule.ports[1]) {
                    changes.push(Change::Add(flow(place, rule, [source, destination])));
                }
            }
        }
        let mut tables = Tables::new(0, 1, Limits::default());
        tables.change_all(changes, 0).unwrap_or_else(|refused| panic!("{refused}"));
        tables
    }

    /// The packets as keys.
    pub fn keys(&self) -> Vec<Key> {
        let key = |packet: &Packet| {
            let mut key = Key::ZERO;
            key.set(Field::EthType, 0x800);
            key.set(Field::IpSrc, packet.addresses[0].into());
            key.set(Field::IpDst, packet.addresses[1].into());
            key.set(Field::NwProto, packet.protocol.into());
            // The ports of TCP and UDP are in one place.
            key.set(Field::TcpSrc, packet.ports[0].into());
            key.set(Field::TcpDst, packet.ports[1].into());
            key
        };
        self.packets.iter().map(key).collect()
    }
}

fn rule(random: &mut Random, networks: &[u32]) -> Rule {
    let mut prefix = || {
        let bits = match random.percent() {
            0..5 => 0,
            5..8 => 8,
            8..20 => 16,
            20..26 => 20,
            26..61 => 24,
            61..67 => 27,
            67..75 => 28,
            _ => 32,
        };
        let network = networks[random.below(networks.len() as u64) as usize];
        let prefix = Prefix { address: network & 0xffff_0000 | random.next() as u32 & 0xffff, bits };
        Prefix { address: prefix.address & prefix.mask(), ..prefix }
    };
    let (source, destination) = (prefix(), prefix());
    let protocol = match random.percent() {
        0..72 => Some(6),
        72..93 => Some(17),
        _ => None,
    };
    let mut ports = || match random.percent() {
        0..45 => 0..=u16::MAX,
        45..80 => {
            let port = SERVICES[random.below(SERVICES.len() as u64) as usize];
            port..=port
        }
        80..90 => 1024..=u16::MAX,
        _ => {
            let first = random.below(60_000) as u16;
            first..=first + [1, 10, 100, 1000, 5000][random.below(5) as usize]
        }
    };
    let to = ports();
    let from = ports();
    let any = 0..=u16::MAX;
    let ports = match protocol {
        None => [any.clone(), any],
        // Few rules name a client's port.
        Some(_) if random.percent() < 80 => [any, to],
        Some(_) => [from, to],
    };
    Rule { source, destination, ports, protocol }
}

fn packet(random: &mut Random, rules: &[Rule]) -> Packet {
    let any = [random.next() as u32, random.next() as u32];
    let protocol = if random.percent() < 80 { 6 } else { 17 };
    if random.percent() < 10 {
        return Packet { addresses: any, ports: any.map(|word| (word >> 16) as u16), protocol };
    }
    let rule = &rules[random.below(rules.len() as u64) as usize];
    let within = |prefix: Prefix, any: u32| prefix.address | any & !prefix.mask();
    let addresses = [within(rule.source, any[0]), within(rule.destination, any[1])];
    let ports = [0, 1].map(|end| {
        let ports: &RangeInclusive<u16> = &rule.ports[end];
        ports.start() + random.below(u64::from(ports.end() - ports.start()) + 1) as u16
    });
    Packet { addresses, ports, protocol: rule.protocol.unwrap_or(protocol) }
}

/// The fewest values with masks that together are these ports.
fn masked(ports: &RangeInclusive<u16>) -> Vec<[u16; 2]> {
    let (mut at, end) = (u32::from(*ports.start()), u32::from(*ports.end()) + 1);
    let mut all = Vec::new();
    while at < end {
        let mut size = 1 << at.trailing_zeros().min(16);
        while at + size > end {
            size /= 2;
        }
        all.push([at as u16, !(size - 1) as u16]); // below 65,536
        at += size;
    }
    all
}

fn flow(place: usize, rule: &Rule, ports: [[u16; 2]; 2]) -> Flow {
    let protocol = match rule.protocol {
        Some(6) => "tcp",
        Some(_) => "udp",
        None => "ip",
    };
    let mut text = format!("cookie={place},priority={},{protocol}", 60_000 - place);
    for (name, prefix) in [("nw_src", rule.source), ("nw_dst", rule.destination)] {
        let _ = write!(text, ",{name}={}/{}", Ipv4Addr::from(prefix.address), prefix.bits);
    }
    for (name, [value, mask]) in ["tp_src", "tp_dst"].into_iter().zip(ports) {
        if mask != 0 {
            let _ = write!(text, ",{name}={value:#x}/{mask:#x}");
        }
    }
    Flow::parse(&format!("{text} actions=drop")).unwrap_or_else(|error| panic!("{text}: {error}"))
}
