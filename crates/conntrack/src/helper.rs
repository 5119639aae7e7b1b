//! Helpers: the connections that the hosts of a control channel announce (FTP: RFC 959, RFC 2428; TFTP: RFC 1350).
//!
//! The text comes from a peer and is hostile. A line counts if all of it lies within the given bytes, if the segment begins
//! where a line begins, and if it names the address of its sender and a port that is not privileged. A peer
//! cannot make the tracker expect a connection to another host (RFC 2577 §3).
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use crate::bytes::u32_at;
use crate::packet::{Network, Packet};
use crate::segment::before;
use crate::{Direction, protocol};

/// The lowest port that a host may announce.
const LOWEST_PORT: u16 = 1024;
/// The most decimal digits of a number in a line.
const MAX_DIGITS: usize = 5;

/// A protocol whose control channel announces other connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each names its protocol")]
pub enum Helper {
    Ftp,
    Tftp,
}

impl Helper {
    /// The helper of a control port (IANA). `None` if there is none.
    pub fn of_port(port: u16) -> Option<Helper> {
        match port {
            21 => Some(Helper::Ftp),
            69 => Some(Helper::Tftp),
            _ => None,
        }
    }

    /// The helper whose control channel has this transport protocol.
    pub(crate) fn of_protocol(number: u8) -> Option<Helper> {
        match number {
            protocol::TCP => Some(Helper::Ftp),
            protocol::UDP => Some(Helper::Tftp),
            _ => None,
        }
    }
}

/// The payload of a frame of a control channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub bytes: &'a [u8],
    /// The place of `bytes`, from the network header on.
    pub at: usize,
    /// Whether `bytes` is the whole payload.
    pub is_whole: bool,
    /// The sequence number of its first byte; 0 for UDP.
    pub sequence: u32,
    /// The sequence number behind the whole payload.
    pub end: u32,
}

impl<'a> Text<'a> {
    /// The payload of a datagram with this packet. `None` if its header is cut off.
    pub fn read(datagram: &'a [u8], packet: &Packet<'_>) -> Option<Text<'a>> {
        let end = Network::read(datagram)?.end;
        let (header, sequence) = match packet.tuple.protocol {
            protocol::TCP => {
                let offset = datagram.get(packet.transport + 12)?;
                (usize::from(offset >> 4) * 4, u32_at(datagram, packet.transport + 4)?)
            }
            _ => (8, 0),
        };
        let at = packet.transport + header;
        let whole = end.checked_sub(at)?;
        let bytes = datagram.get(at..)?;
        let bytes = &bytes[..bytes.len().min(whole)];
        let is_whole = bytes.len() == whole;
        Some(Text { bytes, at, is_whole, sequence, end: sequence.wrapping_add(whole as u32) }) // at most 65,535
    }
}

/// The form in which a port is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `h1,h2,h3,h4,p1,p2` (RFC 959 §4.1.2).
    Numbers,
    /// `|family|address|port|` (RFC 2428 §2).
    Extended,
    /// `|||port|` (RFC 2428 §3).
    PortAlone,
    /// The source port of the frame (RFC 1350 §4).
    Datagram,
}

/// A port that a host announces: the other end of the control channel will connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub port: u16,
    pub form: Form,
    /// The place of address and port in the text.
    pub place: Range<usize>,
}

/// What is known of the lines of a control channel: for each direction, the sequence numbers at which a line begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    lines: [Lines; 2],
}

impl Control {
    /// Reads a frame of the control channel. `is_answered` says whether frames were seen in both directions.
    pub fn read(
        &mut self,
        helper: Helper,
        text: &Text<'_>,
        packet: &Packet<'_>,
        direction: Direction,
        is_answered: bool,
    ) -> Option<Announced> {
        let announced = match helper {
            Helper::Tftp => {
                // A read or write request: the answer comes from another port.
                let is_request = matches!(text.bytes, [0, 1 | 2, ..]) && direction == Direction::Original;
                let port = packet.tuple.source.port;
                is_request.then_some(Announced { port, form: Form::Datagram, place: 0..0 })
            }
            Helper::Ftp if is_answered => self.read_ftp(text, packet.tuple.source.address, direction),
            Helper::Ftp => None,
        };
        announced.filter(|announced| announced.port >= LOWEST_PORT)
    }

    fn read_ftp(&mut self, text: &Text<'_>, own: IpAddr, direction: Direction) -> Option<Announced> {
        if text.sequence == text.end {
            return None;
        }
        let lines = &mut self.lines[direction as usize];
        let begins = lines.begin_at(text.sequence);
        if text.is_whole && text.bytes.last() == Some(&b'\n') {
            lines.add(text.end);
        }
        begins.then(|| announced(text.bytes, direction, own)).flatten()
    }
}

/// Two sequence numbers at which a line begins, because the segment before ended with a newline.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    starts: [Option<u32>; 2],
}

impl Lines {
    fn begin_at(&self, sequence: u32) -> bool {
        self.starts.contains(&Some(sequence))
    }

    /// Adds a number in place of the older one.
    fn add(&mut self, sequence: u32) {
        if self.begin_at(sequence) {
            return;
        }
        match self.starts {
            [None, _] => self.starts[0] = Some(sequence),
            [_, None] => self.starts[1] = Some(sequence),
            [Some(one), Some(other)] => {
                let (older, number) = if before(one, other) { (0, one) } else { (1, other) };
                if before(number, sequence) {
                    self.starts[older] = Some(sequence);
                }
            }
        }
    }
}

/// The rest of a line, and its place.
#[derive(Clone, Copy)]
struct Rest<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn skip(self, bytes: usize) -> Option<Rest<'a>> {
        Some(Rest { text: self.text.get(bytes..)?, at: self.at + bytes })
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.text.split_first()?;
        (self.text, self.at) = (rest, self.at + 1);
        Some(*first)
    }

    /// A decimal number.
    fn number(&mut self) -> Option<u32> {
        let digits = self.text.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > MAX_DIGITS {
            return None;
        }
        let value = self.text[..digits].iter().fold(0, |value, digit| 10 * value + u32::from(digit - b'0'));
        *self = self.skip(digits)?;
        Some(value)
    }

    /// The bytes up to this one, which is skipped.
    fn up_to(&mut self, end: u8) -> Option<&'a [u8]> {
        let length = self.text.iter().position(|byte| *byte == end)?;
        let part = &self.text[..length];
        *self = self.skip(length + 1)?;
        Some(part)
    }

    /// A delimiter of RFC 2428 §2.
    fn delimiter(&mut self) -> Option<u8> {
        self.byte().filter(|byte| (33..=126).contains(byte) && !byte.is_ascii_digit())
    }
}

/// The port in the first line of a text, if the line announces one at the address of its sender.
fn announced(text: &[u8], direction: Direction, own: IpAddr) -> Option<Announced> {
    let line = Rest { text: text.split(|byte| *byte == b'\n').next()?, at: 0 };
    let is_ended = line.text.len() < text.len();
    let after = |word: &str| {
        let first = line.text.get(..word.len())?;
        first.eq_ignore_ascii_case(word.as_bytes()).then(|| line.skip(word.len())).flatten()
    };
    if !is_ended {
        return None;
    }
    match direction {
        Direction::Original => match (after("PORT "), after("EPRT ")) {
            (Some(rest), _) => numbers(rest, own),
            (_, Some(rest)) => extended(rest, own),
            _ => None,
        },
        Direction::Reply => match (after("227 "), after("229 ")) {
            // RFC 1123 §4.1.2.6: the numbers may be without brackets.
            (Some(rest), _) => numbers(rest.skip(rest.text.iter().position(u8::is_ascii_digit)?)?, own),
            (_, Some(mut rest)) => {
                rest.up_to(b'(')?;
                port_alone(rest)
            }
            _ => None,
        },
    }
}

fn numbers(mut rest: Rest<'_>, own: IpAddr) -> Option<Announced> {
    let (start, mut bytes) = (rest.at, [0; 6]);
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::try_from(rest.number()?).ok()?;
        if at < 5 {
            rest.byte().filter(|byte| *byte == b',')?;
        }
    }
    let [a, b, c, d, high, low] = bytes;
    let port = u16::from_be_bytes([high, low]);
    let announced = Announced { port, form: Form::Numbers, place: start..rest.at };
    (own == Ipv4Addr::new(a, b, c, d)).then_some(announced)
}

fn extended(mut rest: Rest<'_>, own: IpAddr) -> Option<Announced> {
    let start = rest.at;
    let delimiter = rest.delimiter()?;
    let (family, address) = (rest.up_to(delimiter)?, rest.up_to(delimiter)?);
    let port = port_before(&mut rest, delimiter)?;
    let wanted: &[u8] = if own.is_ipv4() { b"1" } else { b"2" };
    let address: IpAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let announced = Announced { port, form: Form::Extended, place: start..rest.at };
    (family == wanted && address == own).then_some(announced)
}

fn port_alone(mut rest: Rest<'_>) -> Option<Announced> {
    let start = rest.at;
    let delimiter = rest.delimiter()?;
    let is_empty = rest.byte()? == delimiter && rest.byte()? == delimiter;
    let port = port_before(&mut rest, delimiter).filter(|_| is_empty)?;
    Some(Announced { port, form: Form::PortAlone, place: start..rest.at })
}

fn port_before(rest: &mut Rest<'_>, delimiter: u8) -> Option<u16> {
    let port = u16::try_from(rest.number()?).ok()?;
    rest.byte().filter(|byte| *byte == delimiter).map(|_| port)
}
