//! Random conversations between hosts on both sides of the router.
use super::common::{
    ACK, Ends, FIN, PSH, RST, Random, SYN, Tcp, URG, below, echo, icmp, of, sctp, udp, unreachable,
};
use super::router::Side;

/// What each end of a connection has sent so far.
#[derive(Clone, Copy, Debug)]
struct Connection {
    ends: Ends,
    /// The next sequence number of each end.
    next: [u32; 2],
    tags: [u32; 2],
    begun: bool,
}

/// Conversations, and the datagrams that arrived last on each side.
#[derive(Default)]
pub struct Talk {
    connections: Vec<Connection>,
    arrived: [Vec<Vec<u8>>; 2],
    begun: u16,
}

/// A datagram on its way to the router.
pub struct Sent {
    pub side: Side,
    pub datagram: Vec<u8>,
    /// Without a connection, this datagram would begin one that takes the answers of a translated connection. Linux and
    /// this crate solve that by ports of their own choice.
    pub needs_connection: bool,
    /// The number of the connection; 0 for errors.
    pub number: u16,
}

/// Who speaks with whom: `router.rs` translates the servers with 200 and the clients with 2.
const PAIRS: [(&str, &str); 8] = [
    ("10.1.0.1", "10.2.0.1"),
    ("10.1.0.1", "10.2.0.200"),
    ("10.1.0.2", "10.2.0.1"),
    ("10.2.0.1", "10.1.0.1"),
    ("fd01::1", "fd02::1"),
    ("fd01::1", "fd02::200"),
    ("fd01::2", "fd02::1"),
    ("fd02::1", "fd01::1"),
];

/// How many connections talk at once.
const CONNECTIONS: usize = 12;

impl Talk {
    /// A datagram has arrived: errors quote it.
    pub fn arrived(&mut self, side: Side, datagram: Vec<u8>) {
        let arrived = &mut self.arrived[side as usize];
        arrived.push(datagram);
        if arrived.len() > 8 {
            arrived.remove(0);
        }
    }

    fn connection(&mut self, random: &mut Random) -> usize {
        if self.connections.len() == CONNECTIONS && below(random, 150) == 0 {
            let at = below(random, self.connections.len());
            self.connections.swap_remove(at);
        }
        if self.connections.len() < CONNECTIONS {
            // Ports come again after a while, then with the same addresses and the same protocol.
            self.begun = (self.begun + 1) % (8 * 8 * PAIRS.len() as u16);
            let (from, to) = PAIRS[usize::from(self.begun) / 8 % PAIRS.len()];
            let ends = Ends::new(from, to, [2000 + self.begun, 80]);
            let next = [of(random, &[1, 1000, u32::MAX - 300]), of(random, &[1, 5000, u32::MAX - 5])];
            let tags = [random.next() as u32, random.next() as u32];
            self.connections.push(Connection { ends, next, tags, begun: false });
            return self.connections.len() - 1;
        }
        below(random, self.connections.len())
    }

    /// The next datagram.
    pub fn next(&mut self, random: &mut Random) -> Sent {
        let at = self.connection(random);
        if below(random, 20) == 0
            && let Some(error) = self.error(random)
        {
            return error;
        }
        let connection = self.connections[at];
        let end = if connection.begun || below(random, 8) == 0 { below(random, 2) } else { 0 };
        self.connections[at].begun = true;
        let ends = arriving(&connection, end);
        let is_translated = arriving(&connection, 1).back() != connection.ends;
        // The port decides about the protocol of a connection.
        let datagram = match connection.ends.ports[0] % 8 {
            0 => udp(ends, b"hello"),
            1 => query(random, ends, &connection, end),
            2 => self.association(random, at, ends, end),
            _ => {
                let mut segment = self.segment(random, at, end);
                // The connection would be opened again with exchanged parts, and its answers would be those of a
                // translated one.
                if segment.flags & !URG == SYN && end == 1 && is_translated {
                    segment.flags |= ACK;
                }
                segment.datagram(ends)
            }
        };
        let number = connection.ends.ports[0];
        Sent { side: Side::of(ends.from), datagram, needs_connection: end == 1 && is_translated, number }
    }

    fn segment(&mut self, random: &mut Random, at: usize, end: usize) -> Tcp {
        let connection = &mut self.connections[at];
        let (own, other) = (connection.next[end], connection.next[1 - end]);
        const USUAL: [u8; 10] = [SYN, SYN | ACK, ACK, ACK, ACK | PSH, ACK, FIN | ACK, ACK, RST, RST | ACK];
        const ODD: [u8; 7] = [0, FIN, SYN | FIN, SYN | URG, ACK | URG, SYN | ACK | URG, FIN | RST];
        let flags = if below(random, 40) == 0 { of(random, &ODD) } else { of(random, &USUAL) };
        const STEPS: [u32; 12] = [0, 0, 0, 0, 0, 0, 0, 1, u32::MAX, 1000, 70_000, 1 << 31];
        let mut step = |odds| if below(random, odds) == 0 { of(random, &STEPS) } else { 0 };
        let sequence = own.wrapping_add(step(6));
        let acknowledgement = if step(30) == 0 { other.wrapping_add(step(6)) } else { 0 };
        let mut options = Vec::new();
        if flags & SYN != 0 {
            for (option, odds) in [(&[3_u8, 3, 7][..], 2), (&[4, 2], 2), (&[3, 3, 2], 6), (&[1], 3)] {
                if below(random, odds) == 0 {
                    options.extend(option);
                }
            }
        } else if below(random, 6) == 0 {
            options.extend([1, 1, 5, 10]);
            options.extend(acknowledgement.wrapping_add(10).to_be_bytes());
            options.extend(acknowledgement.wrapping_add(of(random, &[20, 100, 90_000])).to_be_bytes());
        }
        let payload = if flags & (SYN | RST) == 0 { of(random, &[0, 0, 1, 100, 700]) } else { 0 };
        let window = of(random, &[0, 100, 1000, 65_535, 65_535]);
        if sequence == own && below(random, 5) > 0 {
            let counted = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
            connection.next[end] = own.wrapping_add(payload as u32).wrapping_add(counted);
        }
        Tcp { flags, sequence, acknowledgement, window, options, payload: vec![b'x'; payload] }
    }

    fn association(&mut self, random: &mut Random, at: usize, ends: Ends, end: usize) -> Vec<u8> {
        let connection = &self.connections[at];
        let kinds: [u8; 14] = [1, 2, 10, 11, 0, 0, 3, 4, 5, 6, 7, 8, 9, 14];
        let usual: [u8; 6] = if end == 0 { [1, 10, 0, 3, 4, 8] } else { [2, 11, 0, 3, 5, 7] };
        let kind = if below(random, 4) == 0 { of(random, &kinds) } else { of(random, &usual) };
        let mut chunk = vec![kind, below(random, 2) as u8, 0, 20];
        chunk.extend(connection.tags[end].to_be_bytes());
        chunk.resize(20, 0);
        let mut tag = if kind == 1 { 0 } else { connection.tags[1 - end] };
        if below(random, 20) == 0 {
            tag = tag.wrapping_add(1);
        }
        if below(random, 8) == 0 {
            chunk.extend([of(random, &kinds), 0, 0, 8, 0, 0, 0, 0]);
        }
        sctp(ends, tag, &chunk)
    }

    /// An error about a datagram that has arrived on the sender's side.
    fn error(&mut self, random: &mut Random) -> Option<Sent> {
        let side = of(random, &[Side::Left, Side::Right]);
        let arrived = &self.arrived[side as usize];
        let about = arrived.get(below(random, 8))?;
        let is_v4 = about[0] >> 4 == 4;
        let (from, to) = if is_v4 { (12, 16) } else { (8, 24) };
        let size = if is_v4 { 4 } else { 16 };
        let address = |at: usize| -> std::net::IpAddr {
            match is_v4 {
                true => <[u8; 4]>::try_from(&about[at..at + size]).unwrap().into(),
                false => <[u8; 16]>::try_from(&about[at..at + size]).unwrap().into(),
            }
        };
        // Errors about errors are never sent.
        let protocol = if is_v4 { about[9] } else { about[6] };
        if matches!(protocol, 1 | 58) && !matches!(about[if is_v4 { 20 } else { 40 }], 0 | 8 | 128 | 129) {
            return None;
        }
        let ends = Ends { from: address(to), to: address(from), ports: [0, 0] };
        // Linux computes the checksum of a quoted SCTP packet again, over the part of it that is there.
        let quoted = if protocol == 132 { 0 } else { of(random, &[28, 48, 68, 500]) };
        let quoted = quoted.max(if is_v4 { 28 } else { 48 });
        let datagram = unreachable(ends, about, quoted);
        (Side::of(ends.from) == side).then_some(Sent { side, datagram, needs_connection: false, number: 0 })
    }
}

/// A query, its answer, or another message.
fn query(random: &mut Random, ends: Ends, connection: &Connection, end: usize) -> Vec<u8> {
    let identifier = connection.ends.ports[0];
    if below(random, 12) == 0 {
        let [high, low] = identifier.to_be_bytes();
        let kinds = if ends.from.is_ipv4() { [0, 8, 13, 14, 17, 40] } else { [128, 129, 139, 140, 128, 200] };
        return icmp(ends, of(random, &kinds), 0, [high, low, 0, 2], &[0; 12]);
    }
    echo(ends, end == 1, identifier)
}

/// The ends of a datagram as its sender writes them: the answering end does not know the translated addresses.
fn arriving(connection: &Connection, end: usize) -> Ends {
    if end == 0 {
        return connection.ends;
    }
    let mut ends = connection.ends.back();
    let seen = |address: std::net::IpAddr| match address.to_string().as_str() {
        "10.2.0.200" => "10.2.0.1".parse().unwrap(),
        "fd02::200" => "fd02::1".parse().unwrap(),
        "10.1.0.2" => "10.2.0.100".parse().unwrap(),
        "fd01::2" => "fd02::100".parse().unwrap(),
        _ => address,
    };
    (ends.from, ends.to) = (seen(ends.from), seen(ends.to));
    ends
}

/// The interesting part of a datagram, for an error's text.
pub fn described(datagram: &[u8]) -> String {
    let is_v4 = datagram[0] >> 4 == 4;
    let (protocol, at) = if is_v4 { (datagram[9], 20) } else { (datagram[6], 40) };
    let word = |place: usize| u32::from_be_bytes(datagram[at + place..at + place + 4].try_into().unwrap());
    match protocol {
        6 => format!(
            "TCP flags {:#x} sequence {} acknowledgement {} window {} payload {}",
            datagram[at + 13],
            word(4),
            word(8),
            word(12) & 0xffff,
            datagram.len() - at - usize::from(datagram[at + 12] >> 4) * 4
        ),
        132 => format!("SCTP tag {:#x} chunks {:02x?}", word(4), &datagram[at + 12..]),
        1 | 58 => format!("ICMP type {}", datagram[at]),
        other => format!("protocol {other}"),
    }
}
