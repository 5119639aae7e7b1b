//! Datagrams for tests.
#![allow(dead_code, reason = "each test file uses its part")]
use std::net::IpAddr;

#[path = "../../../flow/tests/common/mod.rs"]
mod random;
pub use random::Random;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;

/// The ends of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub from: IpAddr,
    pub to: IpAddr,
    pub ports: [u16; 2],
}

impl Ends {
    pub fn new(from: &str, to: &str, ports: [u16; 2]) -> Ends {
        Ends { from: from.parse().unwrap(), to: to.parse().unwrap(), ports }
    }

    pub fn back(self) -> Ends {
        Ends { from: self.to, to: self.from, ports: [self.ports[1], self.ports[0]] }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub fn sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a transport header and its payload.
pub fn transport_sum(ends: Ends, protocol: u8, bytes: &[u8]) -> u16 {
    let mut all = Vec::new();
    if protocol != 1 {
        all.extend(octets(ends.from));
        all.extend(octets(ends.to));
        all.extend((bytes.len() as u32).to_be_bytes());
        all.extend([0, 0, 0, protocol]);
    }
    all.extend(bytes);
    sum(&all)
}

/// CRC32c.
pub fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 })
    })
}

pub fn ip(ends: Ends, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    if ends.from.is_ipv4() {
        datagram.extend([0x45, 0]);
        datagram.extend((20 + payload.len() as u16).to_be_bytes());
        datagram.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
        datagram.extend(octets(ends.from));
        datagram.extend(octets(ends.to));
        let sum = sum(&datagram);
        datagram[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        datagram.extend([0x60, 0, 0, 0]);
        datagram.extend((payload.len() as u16).to_be_bytes());
        datagram.extend([protocol, 64]);
        datagram.extend(octets(ends.from));
        datagram.extend(octets(ends.to));
    }
    datagram.extend(payload);
    datagram
}

pub fn udp(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ends.ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    let sum = transport_sum(ends, 17, &bytes);
    bytes[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    ip(ends, 17, &bytes)
}

/// A TCP segment.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Tcp {
    pub fn new(flags: u8, sequence: u32, acknowledgement: u32) -> Tcp {
        Tcp { flags, sequence, acknowledgement, window: 1000, ..Tcp::default() }
    }

    pub fn datagram(&self, ends: Ends) -> Vec<u8> {
        let mut bytes = Vec::new();
        ends.ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgement.to_be_bytes());
        let options = self.options.len().next_multiple_of(4);
        bytes.extend([((5 + options / 4) << 4) as u8, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.options);
        bytes.resize(20 + options, 0);
        bytes.extend(&self.payload);
        let sum = transport_sum(ends, 6, &bytes);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        ip(ends, 6, &bytes)
    }
}

pub fn sctp(ends: Ends, tag: u32, chunks: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ends.ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    bytes.extend(tag.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(chunks);
    let sum = crc(&bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    ip(ends, 132, &bytes)
}

/// An ICMP message: type, code, four bytes, and what follows.
pub fn icmp(ends: Ends, kind: u8, code: u8, rest: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let protocol = if ends.from.is_ipv4() { 1 } else { 58 };
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(rest);
    bytes.extend(payload);
    let sum = transport_sum(ends, protocol, &bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(ends, protocol, &bytes)
}

pub fn echo(ends: Ends, is_reply: bool, identifier: u16) -> Vec<u8> {
    let kind = match (ends.from.is_ipv4(), is_reply) {
        (true, true) => 0,
        (true, false) => 8,
        (false, true) => 129,
        (false, false) => 128,
    };
    let [high, low] = identifier.to_be_bytes();
    icmp(ends, kind, 0, [high, low, 0, 1], b"payload")
}

/// The error "port unreachable" about a datagram, of which it quotes so many bytes.
pub fn unreachable(ends: Ends, about: &[u8], quoted: usize) -> Vec<u8> {
    let (kind, code) = if ends.from.is_ipv4() { (3, 3) } else { (1, 4) };
    icmp(ends, kind, code, [0; 4], &about[..about.len().min(quoted)])
}

pub fn below(random: &mut Random, limit: usize) -> usize {
    (random.next() % limit as u64) as usize
}

pub fn of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[below(random, all.len())]
}

/// A fragment of a datagram without options or extension headers: these bytes behind the network header.
pub fn fragment(datagram: &[u8], id: u16, part: std::ops::Range<usize>, more: bool) -> Vec<u8> {
    let is_v4 = datagram[0] >> 4 == 4;
    let (header, place) = (if is_v4 { 20 } else { 40 }, part.start as u16);
    let payload = datagram.get(header + part.start..header + part.end).unwrap_or_default();
    let mut payload = payload.to_vec();
    payload.resize(part.len(), b'y');
    let mut bytes = datagram[..header].to_vec();
    if is_v4 {
        bytes[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        bytes[4..6].copy_from_slice(&id.to_be_bytes());
        bytes[6..8].copy_from_slice(&(place >> 3 | u16::from(more) << 13).to_be_bytes());
        bytes[10..12].fill(0);
        let sum = sum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[4..6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        bytes[6] = 44;
        bytes.extend([datagram[6], 0]);
        bytes.extend((place | u16::from(more)).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(id.to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}
