//! Control channels of FTP and TFTP, whose text announces other connections.
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use conntrack::{
    Choice, ControlChange, Helper, Limits, Mapping, Packet, Request, Seed, Settings, Shard, Shards, Side,
    State, TcpRules, Timeouts, Translate, Written,
};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The address to which the client is translated.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// A host that takes no part.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;
const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 20;

/// The numbers of an IPv4 header, and the ports behind it.
#[derive(Clone, Copy)]
struct Ends {
    addresses: [Ipv4Addr; 2],
    ports: [u16; 2],
}

fn datagram(ends: Ends, protocol: u8, behind_ports: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = IP_BYTES + 4 + behind_ports.len() + payload.len();
    let mut bytes = vec![0x45, 0];
    bytes.extend((length as u16).to_be_bytes()); // a payload has at most 255 bytes
    bytes.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    ends.addresses.iter().for_each(|address| bytes.extend(address.octets()));
    ends.ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    [&bytes, behind_ports, payload].concat()
}

fn segment(ends: Ends, flags: u8, numbers: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let [sequence, acknowledgement] = numbers.map(u32::to_be_bytes);
    let rest = [0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    datagram(ends, 6, &[&sequence[..], &acknowledgement, &rest].concat(), payload)
}

/// One table with one control channel.
struct Channel {
    shards: Shards,
    /// The translation of the client, if there is one.
    mapping: Option<Mapping>,
    helper: Helper,
}

impl Channel {
    fn new(is_translated: bool, helper: Helper) -> Self {
        let settings = Settings {
            limits: Limits { connections: 64, ports: 1, per_port: 64, per_zone: u32::MAX },
            tcp: TcpRules::default(),
            timeouts: Timeouts::default(),
            shard: Shard::ALL,
            seed: Seed([1, 2]),
        };
        let public = IpAddr::V4(PUBLIC);
        let mapping = Mapping {
            side: Side::Source,
            addresses: Some((public, public)),
            ports: None,
            choice: Choice::Keep,
            persistent: false,
        };
        let mapping = is_translated.then_some(mapping);
        Channel { shards: Shards::new(settings, 1, Duration::ZERO), mapping, helper }
    }

    /// Tracks a datagram; what changes in it lies in it.
    fn pass(&self, datagram: &[u8], headers: usize) -> ControlChange {
        let Ok(packet) = Packet::read(datagram) else { panic!("{datagram:?} is not read") };
        let request = Request {
            commit: Some(Written::default()),
            helper: Some(self.helper),
            translate: self.mapping.as_ref().map_or(Translate::Existing, Translate::New),
            ..Request::default()
        };
        let verdict = self.shards.track(&packet, &request, Duration::ZERO);
        if !verdict.is_control {
            return ControlChange::default();
        }
        let change = self.shards.read_control(datagram, &packet, &request, Duration::ZERO);
        if let Some(replaced) = &change.payload {
            assert!(self.mapping.is_some(), "a text without translation is kept: {replaced:?}");
            assert!(
                replaced.at >= headers && replaced.at + replaced.removed <= datagram.len(),
                "{replaced:?}"
            );
            assert!(replaced.text().iter().all(u8::is_ascii_graphic), "{replaced:?}");
        }
        assert!(
            change.words().iter().all(|word| word.at >= IP_BYTES && word.at + 4 <= headers),
            "{change:?}"
        );
        change
    }

    /// Whether a first segment between these ends belongs to an announced connection.
    fn is_expected(&self, from: Ipv4Addr, to: Ipv4Addr, port: u16) -> bool {
        let ends = Ends { addresses: [from, to], ports: [20, port] };
        let datagram = segment(ends, SYN, [1, 0], b"");
        let Ok(packet) = Packet::read(&datagram) else { panic!("a first segment is read") };
        let verdict = self.shards.track(&packet, &Request::default(), Duration::ZERO);
        verdict.state.has(State::RELATED)
    }
}

/// The ports that a text may mean: two numbers behind one another as bytes, and each number by itself.
fn ports(text: &[u8]) -> impl Iterator<Item = u16> {
    let numbers = text.split(|byte| !byte.is_ascii_digit()).filter_map(|digits| str::from_utf8(digits).ok());
    let numbers: Vec<u16> = numbers.filter_map(|digits| digits.parse().ok()).collect();
    let pairs: Vec<u16> = numbers.windows(2).map(|pair| pair[0] << 8 | pair[1] & 0xff).collect();
    numbers.into_iter().chain(pairs)
}

/// Reads what the ends of a control channel say: the first byte chooses helper and translation, and the parts that follow
/// have a byte for the direction, one for their length, and their text. No part makes the tracker expect a
/// connection to a third host or to a privileged port (RFC 2577 §3).
pub fn control_channels(bytes: &[u8]) {
    let Some((kind, mut rest)) = bytes.split_first() else { return };
    let (is_translated, is_ftp) = (kind & 1 != 0, kind & 2 != 0);
    let channel = Channel::new(is_translated, if is_ftp { Helper::Ftp } else { Helper::Tftp });
    let server_sees = if is_translated { PUBLIC } else { CLIENT };
    let port = if is_ftp { 21 } else { 69 };
    let ends = [
        Ends { addresses: [CLIENT, SERVER], ports: [2000, port] },
        Ends { addresses: [SERVER, server_sees], ports: [port, 2000] },
    ];
    let mut next = [100_u32, 500];
    if is_ftp {
        for (from, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            let acknowledged = if flags & ACK != 0 { next[1 - from] } else { 0 };
            channel.pass(&segment(ends[from], flags, [next[from], acknowledged], b""), IP_BYTES + TCP_BYTES);
            next[from] += u32::from(flags & SYN != 0);
        }
    }
    while let [direction, length, following @ ..] = rest {
        let (text, following) = following.split_at(usize::from(*length).min(following.len()));
        rest = following;
        let from = usize::from(direction & 1);
        if is_ftp {
            let numbers = [next[from], next[1 - from]];
            channel.pass(&segment(ends[from], ACK | PSH, numbers, text), IP_BYTES + TCP_BYTES);
            next[from] += text.len() as u32; // at most 255
        } else {
            let length = (8 + text.len() as u16).to_be_bytes(); // at most 263
            channel.pass(&datagram(ends[from], 17, &[length[0], length[1], 0, 0], text), IP_BYTES + 8);
        }
        for port in ports(text) {
            assert!(!channel.is_expected(SERVER, OTHER, port), "a third host, port {port}");
            assert!(!channel.is_expected(OTHER, server_sees, port), "from a third host, port {port}");
            let privileged = port % 1024;
            assert!(!channel.is_expected(SERVER, server_sees, privileged), "port {privileged}");
            assert!(!channel.is_expected(CLIENT, SERVER, privileged), "port {privileged}");
        }
    }
}
