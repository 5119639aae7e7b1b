//! From the words of pcap-filter(7) to a filter. As in pcap-filter(7), `and` and `or` have the same precedence, from
//! the left. A value without qualifiers takes those of the value before it (`port 53 or 80`). Each `vlan` moves the
//! conditions behind it in the text by one tag.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use super::field::{Field, MOST_TAGS};
use super::filter::Filter;
use super::possible::is_possible;
use super::primitives::{self, ARP, End, IPV4, IPV6, Link, RARP, SCTP, TCP, UDP};

/// More words are no expression of a person, and no text may use up the stack.
const MOST_WORDS: usize = 256;
const DEEPEST: usize = 16;

const KNOWN: &str = "arp, rarp, ip, ip6, tcp, udp, sctp, icmp, icmp6, igmp, ah, esp, vlan [ID], [ip|ip6|arp] \
                     [src|dst] host ADDRESS, [ip|ip6|arp] [src|dst] net ADDRESS/BITS, [tcp|udp|sctp] [src|dst] port \
                     N, [tcp|udp|sctp] [src|dst] portrange N-M, [ip|ip6] proto N, ether host|src|dst MAC, ether \
                     proto N, [ether] broadcast, [ether|ip|ip6] multicast, less N, greater N, joined by and, or, not \
                     and parentheses";

/// Understands an expression.
///
/// # Errors
/// The word that is not understood, and what would be; or that no frame can match.
pub fn parse(text: &str) -> Result<Filter, String> {
    let words = words(text);
    if words.len() > MOST_WORDS {
        return Err(format!("{} words are too many; {MOST_WORDS} are understood", words.len()));
    }
    let mut parser = Parser { words: &words, at: 0, link: Link::default(), qualifiers: None };
    let filter = parser.expression(0)?;
    match parser.words.get(parser.at) {
        Some(word) => Err(format!("'{word}' is one word too many; join with and, or")),
        None if is_possible(&filter) => Ok(filter),
        None => Err("no frame can match it; join with or where one of several is enough".to_owned()),
    }
}

fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for letter in text.chars() {
        match letter {
            '(' | ')' | '!' => spaced.extend([' ', letter, ' ']),
            _ => spaced.push(letter),
        }
    }
    let spaced = spaced.replace("&&", " and ").replace("||", " or ");
    spaced.split_whitespace().map(str::to_lowercase).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
    Protocol,
}

/// The words before a value.
#[derive(Clone, Copy, Debug)]
struct Qualifiers<'a> {
    /// `ip`, `tcp` and so on, or nothing.
    protocol: &'a str,
    end: End,
    kind: Kind,
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
    /// Moved by each `vlan`.
    link: Link,
    /// Qualifiers that the next value without any takes. Text in parentheses does not change them.
    qualifiers: Option<Qualifiers<'a>>,
}

/// EtherTypes and IP protocols by name, and of which version of IP.
enum Named {
    EtherType(u16),
    Ipv4(u8),
    Ipv6(u8),
    Ip(u8),
}

fn named(word: &str) -> Option<Named> {
    Some(match word {
        "ip" => Named::EtherType(IPV4),
        "ip6" => Named::EtherType(IPV6),
        "arp" => Named::EtherType(ARP),
        "rarp" => Named::EtherType(RARP),
        "icmp" => Named::Ipv4(1),
        "igmp" => Named::Ipv4(2),
        "icmp6" => Named::Ipv6(58),
        "tcp" => Named::Ip(TCP),
        "udp" => Named::Ip(UDP),
        "sctp" => Named::Ip(SCTP),
        "esp" => Named::Ip(50),
        "ah" => Named::Ip(51),
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    /// Takes the next word if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let is = self.peek() == word;
        self.at += usize::from(is);
        is
    }

    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let word = self.words.get(self.at).ok_or_else(|| format!("{what} is missing at the end"))?;
        self.at += 1;
        Ok(word)
    }

    fn expression(&mut self, depth: usize) -> Result<Filter, String> {
        let mut filter = self.term(depth)?;
        loop {
            if self.takes("and") {
                filter = filter.and(self.term(depth)?);
            } else if self.takes("or") {
                filter = filter.or(self.term(depth)?);
            } else {
                return Ok(filter);
            }
        }
    }

    fn term(&mut self, depth: usize) -> Result<Filter, String> {
        if depth > DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST} levels"));
        }
        if self.takes("not") || self.takes("!") {
            return Ok(self.term(depth + 1)?.negated());
        }
        if self.takes("(") {
            let before = self.qualifiers;
            let inner = self.expression(depth + 1)?;
            self.qualifiers = before;
            return match self.takes(")") {
                true => Ok(inner),
                false => Err("a closing parenthesis is missing".into()),
            };
        }
        match self.qualifiers {
            Some(qualifiers) if is_value(self.peek()) => self.value(qualifiers),
            _ => self.primitive(depth),
        }
    }

    fn primitive(&mut self, depth: usize) -> Result<Filter, String> {
        self.qualifiers = None;
        let first = self.peek();
        let protocol = if named(first).is_some() || first == "ether" { first } else { "" };
        self.at += usize::from(!protocol.is_empty());
        let (end, kind) = (self.end(), self.kind());
        if end.is_some() || kind.is_some() {
            let (end, kind) = (end.unwrap_or(End::Either), kind.unwrap_or(Kind::Host));
            self.qualifiers = Some(Qualifiers { protocol, end, kind });
            // A parenthesis or `not` may follow: `port (53 or 80)`.
            return match self.peek() {
                "(" | "not" | "!" => self.term(depth + 1),
                _ => self.value(Qualifiers { protocol, end, kind }),
            };
        }
        if self.takes("broadcast") {
            return match protocol {
                "" | "ether" => Ok(primitives::mac(End::Destination, [0xff; 6])),
                _ => Err(format!("'{protocol} broadcast' is not understood; write ether broadcast")),
            };
        }
        if self.takes("multicast") {
            return match protocol {
                "" | "ether" => Ok(primitives::multicast()),
                "ip" => Ok(self.link.ipv4_multicast()),
                "ip6" => Ok(self.link.ipv6_multicast()),
                _ => {
                    Err(format!("'{protocol} multicast' is not understood; write ip, ip6 or ether multicast"))
                }
            };
        }
        match (named(protocol), protocol) {
            (Some(Named::EtherType(number)), _) => Ok(self.link.ether_type(number)),
            (Some(Named::Ipv4(number)), _) => Ok(self.link.ipv4_protocol(number)),
            (Some(Named::Ipv6(number)), _) => Ok(self.link.ipv6_protocol(number)),
            (Some(Named::Ip(number)), _) => Ok(self.link.ip_protocol(number)),
            (None, "") => self.other(),
            (None, _) => {
                let word = self.next("host, src, dst, proto, broadcast or multicast")?;
                Err(format!("'{word}' stands where host, src, dst, proto, broadcast or multicast should"))
            }
        }
    }

    /// A primitive without qualifiers.
    fn other(&mut self) -> Result<Filter, String> {
        match self.next("an expression")? {
            "vlan" => {
                let id = match is_value(self.peek()) {
                    true => Some(self.number("a VLAN's number", 0xfff)? as u16),
                    false => None,
                };
                let filter = self.link.vlan(id);
                self.link.tags += 1;
                match self.link.tags <= MOST_TAGS {
                    true => Ok(filter),
                    false => Err(format!("'vlan' stands more than {MOST_TAGS} times")),
                }
            }
            "less" => Ok(Filter::Within(Field::Length, 0, self.number("a length", u32::MAX)?)),
            "greater" => {
                let least = self.number("a length", u32::MAX)?;
                Ok(Filter::Within(Field::Length, least, u32::MAX))
            }
            word => Err(format!("'{word}' is not understood; known are {KNOWN}")),
        }
    }

    fn end(&mut self) -> Option<End> {
        let (one, other) = match self.peek() {
            "src" => (End::Source, "dst"),
            "dst" => (End::Destination, "src"),
            _ => return None,
        };
        self.at += 1;
        let joined = match (self.peek(), self.words.get(self.at + 1).is_some_and(|word| word == other)) {
            ("or", true) => End::Either,
            ("and", true) => End::Both,
            _ => return Some(one),
        };
        self.at += 2;
        Some(joined)
    }

    fn kind(&mut self) -> Option<Kind> {
        let kind = match self.peek() {
            "host" => Kind::Host,
            "net" => Kind::Net,
            "port" => Kind::Port,
            "portrange" => Kind::PortRange,
            "proto" => Kind::Protocol,
            _ => return None,
        };
        self.at += 1;
        Some(kind)
    }

    /// The value behind these qualifiers.
    fn value(&mut self, of: Qualifiers<'_>) -> Result<Filter, String> {
        match of.kind {
            Kind::Port => {
                let port = self.number("a port's number", 0xffff)? as u16;
                self.ports(of, port..=port)
            }
            Kind::PortRange => {
                let word = self.next("a range of ports")?;
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                let wrong = || format!("'{word}' is no range of ports, as 8000-8080");
                let [first, last] =
                    [first, last].map(|port| number(port).and_then(|port| u16::try_from(port).ok()));
                let (first, last) = first.zip(last).ok_or_else(wrong)?;
                self.ports(of, first.min(last)..=first.max(last))
            }
            Kind::Protocol => self.protocol(of),
            Kind::Host | Kind::Net if of.protocol == "ether" => {
                let word = self.next("an Ethernet address")?;
                match of.kind {
                    Kind::Net => Err("'ether net' is not understood; write ether host MAC".into()),
                    _ => Ok(primitives::mac(of.end, mac(word)?)),
                }
            }
            Kind::Host | Kind::Net => self.address(of),
        }
    }

    fn ports(&self, of: Qualifiers<'_>, ports: RangeInclusive<u16>) -> Result<Filter, String> {
        let protocols: &[u8] = match of.protocol {
            "" => &[SCTP, TCP, UDP],
            "tcp" => &[TCP],
            "udp" => &[UDP],
            "sctp" => &[SCTP],
            other => return Err(format!("{other} has no ports; join with and: {other} and port N")),
        };
        Ok(self.link.ports(protocols, of.end, ports))
    }

    fn protocol(&mut self, of: Qualifiers<'_>) -> Result<Filter, String> {
        let word = self.next("a protocol")?;
        let name = word.trim_start_matches('\\');
        let wrong = |what: &str| Err(format!("'{word}' is {what}"));
        if of.end != End::Either {
            return Err("a protocol has neither src nor dst".into());
        }
        if of.protocol == "ether" {
            return match (named(name), number(word)) {
                (Some(Named::EtherType(number)), _) => Ok(self.link.ether_type(number)),
                // Below 1501 stand lengths, and AppleTalk is in frames with lengths too.
                (_, Some(0x809b | 0x80f3 | ..=1500)) => {
                    wrong("of frames with an LLC header, which are not understood")
                }
                (_, Some(number @ ..=0xffff)) => Ok(self.link.ether_type(number as u16)),
                _ => wrong("no EtherType, as 0x88f7"),
            };
        }
        let number = match (named(name), name, number(word)) {
            (Some(Named::Ip(number) | Named::Ipv4(number) | Named::Ipv6(number)), ..) => number,
            (_, "gre", _) => 47,
            (_, _, Some(number @ ..=0xff)) => number as u8,
            _ => return wrong("no IP protocol, as 89"),
        };
        match of.protocol {
            "" => Ok(self.link.ip_protocol(number)),
            "ip" => Ok(self.link.ipv4_protocol(number)),
            "ip6" => Ok(self.link.ipv6_protocol(number)),
            other => {
                Err(format!("'{other} proto' is not understood; write ip proto, ip6 proto or ether proto"))
            }
        }
    }

    fn address(&mut self, of: Qualifiers<'_>) -> Result<Filter, String> {
        let word = self.next("an address")?;
        let (address, bits) = match word.split_once('/') {
            Some((address, bits)) if of.kind == Kind::Net => (address, Some(bits)),
            _ => (word, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| format!("'{word}' is no IP address, as 10.0.0.1 or fd00::1"))?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), str::parse).ok().filter(|bits| *bits <= width);
        let bits: u32 = bits.ok_or_else(|| format!("'{word}' has no number of bits up to {width}"))?;
        let mut mask = u128::MAX.checked_shl(width - bits).unwrap_or(0);
        if of.kind == Kind::Net && address.is_ipv4() && self.takes("mask") {
            let text = self.next("a mask")?;
            let read: Ipv4Addr = text.parse().map_err(|_| format!("'{text}' is no mask, as 255.0.0.0"))?;
            mask = read.to_bits().into();
        }
        let number = match address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        };
        if number & !mask != 0 {
            return Err(format!("'{word}' has bits outside of the network's; set them to 0"));
        }
        let applied = |version: &str| {
            let protocol = of.protocol;
            Err(format!("'{protocol}' has no {version} address; join with and: {protocol} and host {word}"))
        };
        match (address, of.protocol) {
            (IpAddr::V4(address), protocol) => {
                let net = |kind| self.link.ipv4_net(kind, of.end, address, mask as u32);
                match protocol {
                    "" => Ok(net(IPV4).or(net(ARP)).or(net(RARP))),
                    "ip" => Ok(net(IPV4)),
                    "arp" => Ok(net(ARP)),
                    "rarp" => Ok(net(RARP)),
                    _ => applied("IPv4"),
                }
            }
            (IpAddr::V6(address), "" | "ip6") => Ok(self.link.ipv6_net(of.end, address, mask)),
            (IpAddr::V6(_), _) => applied("IPv6"),
        }
    }

    fn number(&mut self, what: &str, most: u32) -> Result<u32, String> {
        let word = self.next(what)?;
        number(word).filter(|number| *number <= most).ok_or_else(|| format!("'{word}' is not {what}"))
    }
}

/// Whether a word is a number, an address or an escaped name, so that it can stand without qualifiers.
fn is_value(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit() || first == '\\') || word.contains([':', '.'])
}

/// A number in C's notation, which tcpdump uses: hexadecimal after 0x, octal after 0.
fn number(word: &str) -> Option<u32> {
    match (word.strip_prefix("0x"), word.strip_prefix('0')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8).ok(),
        _ => word.parse().ok(),
    }
}

fn mac(word: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("'{word}' is no Ethernet address, as 52:54:00:00:00:01");
    let bytes: Result<Vec<u8>, _> = word.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes.map_err(|_| wrong())?.try_into().map_err(|_| wrong())
}
