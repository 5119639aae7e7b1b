//! Control channels of FTP and TFTP through Linux and through this crate: what they announce, and their text behind address
//! translation.
use super::common::{ACK, Ends, PSH, Random, SYN, Tcp, below, of, transport_sum, udp};
use super::hex;
use super::ours::Ours;
use super::router::{Router, Side};

/// Who speaks with whom: `router.rs` translates the servers with 200 and the clients with 2.
const PAIRS: [(&str, &str); 6] = [
    ("10.1.0.1", "10.2.0.1"),
    ("10.1.0.1", "10.2.0.200"),
    ("10.1.0.2", "10.2.0.1"),
    ("fd01::1", "fd02::1"),
    ("fd01::1", "fd02::200"),
    ("fd01::2", "fd02::1"),
];

/// What the comparison has met.
#[derive(Debug, Default)]
pub struct Seen {
    /// First frames of announced connections.
    pub related: usize,
    /// Frames whose length has changed.
    pub replaced: usize,
    /// Frames with other sequence or acknowledgement numbers.
    pub shifted: usize,
}

/// Both routers, which must do the same.
struct Both<'a> {
    router: &'a mut Router,
    ours: Ours,
    seen: Seen,
    history: Vec<String>,
}

fn is_v4(datagram: &[u8]) -> bool {
    datagram[0] >> 4 == 4
}

fn transport(datagram: &[u8]) -> usize {
    if is_v4(datagram) { 20 } else { 40 }
}

/// The ends of a datagram as it is.
fn ends(datagram: &[u8]) -> Ends {
    let word = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
    let address = |at: usize| -> std::net::IpAddr {
        match is_v4(datagram) {
            true => <[u8; 4]>::try_from(&datagram[at..at + 4]).unwrap().into(),
            false => <[u8; 16]>::try_from(&datagram[at..at + 16]).unwrap().into(),
        }
    };
    let at = transport(datagram);
    let (from, to) = if is_v4(datagram) { (12, 16) } else { (8, 24) };
    Ends { from: address(from), to: address(to), ports: [word(at), word(at + 2)] }
}

/// A datagram without the checksum of TCP: Linux leaves it to the interface if it has changed the text.
fn unsummed(datagram: &[u8], is_tcp: bool) -> Vec<u8> {
    let (mut datagram, at) = (datagram.to_vec(), transport(datagram) + 16);
    if is_tcp {
        datagram[at..at + 2].fill(0);
    }
    datagram
}

impl Both<'_> {
    /// A datagram as it leaves both routers, and the state of its connection.
    fn pass(&mut self, datagram: &[u8]) -> Result<(Vec<u8>, &'static str), String> {
        let side = Side::of(ends(datagram).from);
        let theirs = self.router.pass(side, datagram);
        let here = self.ours.pass(side, datagram);
        let at = transport(datagram);
        let is_tcp = datagram[if is_v4(datagram) { 9 } else { 6 }] == 6;
        self.history.push(format!(
            "{side:?} {} {} -> {}",
            here.state,
            hex(&datagram[at..]),
            hex(&here.datagram[at..])
        ));
        let is_same = theirs.as_ref().is_some_and(|theirs| {
            let is_whole = theirs.datagram == here.datagram
                || here.is_replaced && unsummed(&theirs.datagram, is_tcp) == unsummed(&here.datagram, is_tcp);
            theirs.state == here.state && is_whole
        });
        let is_summed =
            transport_sum(ends(&here.datagram), if is_tcp { 6 } else { 17 }, &here.datagram[at..]) == 0;
        if !is_same || !is_summed {
            let theirs = theirs.map(|theirs| format!("{} {}", theirs.state, hex(&theirs.datagram)));
            return Err(format!(
                "{}\n in   {}\n here {} {} (summed: {is_summed})\nLinux {theirs:?}",
                self.history[self.history.len().saturating_sub(12)..].join("\n"),
                hex(datagram),
                here.state,
                hex(&here.datagram)
            ));
        }
        self.seen.replaced += usize::from(here.is_replaced);
        self.seen.shifted +=
            usize::from(is_tcp && here.datagram[at + 4..at + 12] != datagram[at + 4..at + 12]);
        self.seen.related += usize::from(here.state == "related");
        Ok((here.datagram, here.state))
    }
}

/// One end of a control channel, as it sees the channel.
#[derive(Clone, Debug)]
struct End {
    ends: Ends,
    next: u32,
    received: u32,
    last: Vec<u8>,
}

/// A control channel.
struct Channel {
    /// The client, and the server.
    ends: [End; 2],
}

impl Channel {
    /// Opens a channel, which has a first line in both directions.
    fn open(both: &mut Both<'_>, random: &mut Random, number: u16) -> Result<Channel, String> {
        let (from, to) = of(random, &PAIRS);
        let begin = [of(random, &[1, 7000, u32::MAX - 100]), of(random, &[1, 9000, u32::MAX - 60])];
        let client = End {
            ends: Ends::new(from, to, [30_000 + number, 21]),
            next: begin[0],
            received: 0,
            last: Vec::new(),
        };
        let server = End { next: begin[1], ..client.clone() };
        let mut channel = Channel { ends: [client, server] };
        channel.send(both, 0, SYN, Vec::new(), b"")?;
        channel.send(both, 1, SYN | ACK, Vec::new(), b"")?;
        channel.send(both, 0, ACK, Vec::new(), b"")?;
        channel.send(both, 1, ACK | PSH, Vec::new(), b"220 ready\r\n")?;
        channel.send(both, 0, ACK | PSH, Vec::new(), b"USER x\r\n")?;
        Ok(channel)
    }

    /// Sends a segment from one end to the other: its payload as it arrives.
    fn send(
        &mut self,
        both: &mut Both<'_>,
        from: usize,
        flags: u8,
        options: Vec<u8>,
        payload: &[u8],
    ) -> Result<Vec<u8>, String> {
        let end = &mut self.ends[from];
        let acknowledgement = if flags & ACK != 0 { end.received } else { 0 };
        let segment = Tcp {
            window: 60_000,
            options,
            payload: payload.to_vec(),
            ..Tcp::new(flags, end.next, acknowledgement)
        };
        end.next = end.next.wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0));
        end.last = segment.datagram(end.ends);
        let sent = end.last.clone();
        self.arrive(both, 1 - from, &sent)
    }

    fn arrive(&mut self, both: &mut Both<'_>, at: usize, sent: &[u8]) -> Result<Vec<u8>, String> {
        let (left, _) = both.pass(sent)?;
        let header = transport(&left);
        let payload = left[header + usize::from(left[header + 12] >> 4) * 4..].to_vec();
        let sequence = u32::from_be_bytes(left[header + 4..header + 8].try_into().unwrap());
        let end = &mut self.ends[at];
        end.ends = ends(&left).back();
        let counted = payload.len() as u32 + u32::from(left[header + 13] & SYN != 0);
        let new = sequence.wrapping_add(counted);
        if end.received == 0 || (new.wrapping_sub(end.received) as i32) > 0 {
            end.received = new;
        }
        Ok(payload)
    }

    /// One end announces a port and the other one connects.
    fn announce(&mut self, both: &mut Both<'_>, random: &mut Random, number: u16) -> Result<(), String> {
        let (from, port) = (below(random, 2), 40_000 + number);
        let own = self.ends[from].ends.from;
        let is_other = below(random, 8) == 0;
        let stranger = if own.is_ipv4() { "10.9.0.9" } else { "fd09::9" };
        let named = if is_other { stranger.to_owned() } else { own.to_string() };
        let numbers = format!("{},{},{}", named.replace('.', ","), port >> 8, port & 0xff);
        let family = if own.is_ipv4() { 1 } else { 2 };
        let (is_short, has_numbers) = (below(random, 2) == 0, own.is_ipv4());
        let text = match (from, is_short && has_numbers) {
            (0, true) => format!("{} {numbers}\r\n", of(random, &["PORT", "port"])),
            (0, false) => format!("EPRT |{family}|{named}|{port}|\r\n"),
            (_, true) => format!(
                "227 Entering Passive Mode {}\r\n",
                of(random, &["(N).", "N", "=N"]).replace('N', &numbers)
            ),
            (_, false) => format!("229 Entering Extended Passive Mode (|||{port}|)\r\n"),
        };
        let arrived = self.send(both, from, ACK | PSH, Vec::new(), text.as_bytes())?;
        if below(random, 3) == 0 {
            let again = self.ends[from].last.clone();
            self.arrive(both, 1 - from, &again)?;
        }
        let arrived = String::from_utf8(arrived).unwrap();
        let digits: Vec<u32> =
            arrived[4..].split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
        let port = match is_short && has_numbers {
            true => digits[digits.len() - 2] << 8 | digits[digits.len() - 1],
            false => *digits.last().unwrap(),
        };
        let other = &self.ends[1 - from].ends;
        for source in 0..1 + below(random, 2) as u16 {
            let source = 50_000 + 2 * (number % 5000) + source;
            let data = Ends { from: other.from, to: other.to, ports: [source, port as u16] };
            self.connect(both, random, data)?;
        }
        Ok(())
    }

    fn connect(&self, both: &mut Both<'_>, random: &mut Random, data: Ends) -> Result<(), String> {
        let (left, state) = both.pass(&Tcp::new(SYN, 100, 0).datagram(data))?;
        if state != "related" {
            return Ok(());
        }
        let back = ends(&left).back();
        both.pass(&Tcp::new(SYN | ACK, 900, 101).datagram(back))?;
        if below(random, 2) == 0 {
            both.pass(&Tcp::new(ACK, 101, 901).datagram(data))?;
        }
        Ok(())
    }

    /// One end sends something that announces nothing.
    fn talk(&mut self, both: &mut Both<'_>, random: &mut Random) -> Result<(), String> {
        let from = below(random, 2);
        match below(random, 4) {
            0 => {
                let block = self.ends[from].received.wrapping_add(of(random, &[10, 0_u32.wrapping_sub(8)]));
                let mut options = vec![1, 1, 5, 10];
                options.extend(block.to_be_bytes());
                options.extend(block.wrapping_add(4).to_be_bytes());
                self.send(both, from, ACK, options, b"")?;
            }
            1 => {
                let again = self.ends[from].last.clone();
                self.arrive(both, 1 - from, &again)?;
            }
            2 => {
                self.send(both, from, ACK, Vec::new(), if from == 0 { b"NO" } else { b"25" })?;
                self.send(
                    both,
                    from,
                    ACK | PSH,
                    Vec::new(),
                    if from == 0 { b"OP\r\n" } else { b"0 fine\r\n" },
                )?;
            }
            _ => {
                self.send(
                    both,
                    from,
                    ACK | PSH,
                    Vec::new(),
                    if from == 0 { b"PWD\r\n" } else { b"257 here\r\n" },
                )?;
            }
        }
        Ok(())
    }
}

/// A request of TFTP and its answer from another port.
fn transfer(both: &mut Both<'_>, random: &mut Random, number: u16) -> Result<(), String> {
    let (from, to) = of(random, &PAIRS);
    let request = Ends::new(from, to, [30_000 + number, 69]);
    let kind = of(random, &[1, 2, 3, 9]);
    let (left, _) = both.pass(&udp(request, &[0, kind, b'f', 0, b'o', 0]))?;
    let seen = ends(&left);
    for port in [2000 + number, 2500 + number] {
        let answer = Ends { from: seen.to, to: seen.from, ports: [port, seen.ports[0]] };
        let (left, state) = both.pass(&udp(answer, &[0, 3, 0, 1, 7]))?;
        if state == "related" {
            both.pass(&udp(ends(&left).back(), &[0, 4, 0, 1]))?;
        }
    }
    Ok(())
}

/// So many channels through Linux and through this crate. The error has the first frame that differs.
pub fn compare(router: &mut Router, channels: u16, seed: u64) -> Result<Seen, String> {
    let mut random = Random(seed);
    let mut both = Both { router, ours: Ours::new(false), seen: Seen::default(), history: Vec::new() };
    let mut announced = 0;
    for number in 0..channels {
        both.history.clear();
        transfer(&mut both, &mut random, number)?;
        let mut channel = Channel::open(&mut both, &mut random, number)?;
        for _ in 0..4 + below(&mut random, 10) {
            if below(&mut random, 3) == 0 {
                announced += 1;
                channel.announce(&mut both, &mut random, announced)?;
            } else {
                channel.talk(&mut both, &mut random)?;
            }
        }
    }
    Ok(both.seen)
}
