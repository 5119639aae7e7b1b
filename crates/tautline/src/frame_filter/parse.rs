//! From the words of pcap-filter(7) to a filter. `and` binds closer than `or`, as most expect of it, where tcpdump
//! takes both from the left.

use std::net::IpAddr;

use super::filter::{End, Filter};

/// Beyond this nobody has written it by hand; and no text may use up the stack.
const MOST_WORDS: usize = 256;
const DEEPEST: usize = 16;

const KNOWN: &str = "arp, ip, ip6, tcp, udp, icmp, icmp6, sctp, vlan [ID], [src|dst] host ADDRESS, [src|dst] net \
                     ADDRESS/BITS, [tcp|udp] [src|dst] port N, ether host|src|dst MAC, ether proto N, ether \
                     broadcast, ether multicast, less N, greater N, joined by and, or, not and parentheses";

/// Understands an expression.
///
/// # Errors
/// The word that is not understood, and what would be.
pub fn parse(text: &str) -> Result<Filter, String> {
    let words = words(text);
    if words.len() > MOST_WORDS {
        return Err(format!("{} words are too many; {MOST_WORDS} are understood", words.len()));
    }
    let mut parser = Parser { words: &words, at: 0 };
    let filter = parser.any(0)?;
    match parser.words.get(parser.at) {
        None => Ok(filter),
        Some(word) => Err(format!("'{word}' is one word too many; join with and, or")),
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

struct Parser<'a> {
    words: &'a [String],
    at: usize,
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

    fn any(&mut self, depth: usize) -> Result<Filter, String> {
        let mut found = vec![self.all(depth)?];
        while self.takes("or") {
            found.push(self.all(depth)?);
        }
        Ok(if found.len() == 1 { found.remove(0) } else { Filter::Or(found) })
    }

    fn all(&mut self, depth: usize) -> Result<Filter, String> {
        let mut found = vec![self.one(depth)?];
        while self.takes("and") {
            found.push(self.one(depth)?);
        }
        Ok(if found.len() == 1 { found.remove(0) } else { Filter::And(found) })
    }

    fn one(&mut self, depth: usize) -> Result<Filter, String> {
        if depth > DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST} levels"));
        }
        if self.takes("not") || self.takes("!") {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            return match self.takes(")") {
                true => Ok(inner),
                false => Err("a closing parenthesis is missing".into()),
            };
        }
        self.primitive()
    }

    fn primitive(&mut self) -> Result<Filter, String> {
        let word = self.next("an expression")?;
        let is_about_port = ["port", "src", "dst"].contains(&self.peek());
        Ok(match word {
            "ip" => Filter::EtherType(0x0800),
            "arp" => Filter::EtherType(0x0806),
            "ip6" => Filter::EtherType(0x86dd),
            "tcp" | "udp" => {
                let protocol = Filter::IpProtocol(if word == "tcp" { 6 } else { 17 });
                match is_about_port {
                    true => Filter::And(vec![protocol, self.port()?]),
                    false => protocol,
                }
            }
            "icmp" => Filter::IpProtocol(1),
            "icmp6" => Filter::IpProtocol(58),
            "sctp" => Filter::IpProtocol(132),
            "vlan" => {
                let id = self.peek().parse().ok();
                self.at += usize::from(id.is_some());
                Filter::Vlan(id)
            }
            "ether" => self.ether()?,
            "less" => Filter::AtMost(self.number("a length")?),
            "greater" => Filter::AtLeast(self.number("a length")?),
            "src" | "dst" | "host" | "net" | "port" => {
                self.at -= 1;
                self.address()?
            }
            _ => return Err(format!("'{word}' is not understood; known are {KNOWN}")),
        })
    }

    fn end(&mut self) -> End {
        if self.takes("src") {
            End::Source
        } else if self.takes("dst") {
            End::Destination
        } else {
            End::Either
        }
    }

    fn port(&mut self) -> Result<Filter, String> {
        let end = self.end();
        match self.next("port")? {
            "port" => Ok(Filter::Port(end, self.number("a port's number")?)),
            other => Err(format!("'{other}' stands where port N should")),
        }
    }

    fn address(&mut self) -> Result<Filter, String> {
        let end = self.end();
        let kind = self.next("host, net or port")?;
        match kind {
            "port" => Ok(Filter::Port(end, self.number("a port's number")?)),
            "host" | "net" => {
                let word = self.next("an address")?;
                let (address, bits) = match word.split_once('/') {
                    Some((address, bits)) if kind == "net" => (address, Some(bits)),
                    _ => (word, None),
                };
                let address: IpAddr = address
                    .parse()
                    .map_err(|_| format!("'{word}' is no IP address, as 10.0.0.1 or fd00::1"))?;
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Ok(most), str::parse).ok().filter(|bits| *bits <= most);
                let bits = bits.ok_or_else(|| format!("'{word}' has no number of bits up to {most}"))?;
                Ok(Filter::Net(end, address, bits))
            }
            other => Err(format!("'{other}' stands where host, net or port should")),
        }
    }

    fn ether(&mut self) -> Result<Filter, String> {
        let end = self.end();
        let is_named = self.takes("host");
        if is_named || end != End::Either {
            let word = self.next("an Ethernet address")?;
            return Ok(Filter::Mac(end, mac(word)?));
        }
        match self.next("host, src, dst, proto, broadcast or multicast")? {
            "broadcast" => Ok(Filter::Broadcast),
            "multicast" => Ok(Filter::Multicast),
            "proto" => {
                let word = self.next("an EtherType")?;
                let number = word.strip_prefix("0x").map_or(word.parse(), |hex| u16::from_str_radix(hex, 16));
                number.map(Filter::EtherType).map_err(|_| format!("'{word}' is no EtherType, as 0x88f7"))
            }
            other => {
                Err(format!("'{other}' stands where host, src, dst, proto, broadcast or multicast should"))
            }
        }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("'{word}' is not {what}"))
    }
}

fn mac(word: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("'{word}' is no Ethernet address, as 52:54:00:00:00:01");
    let bytes: Result<Vec<u8>, _> = word.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes.map_err(|_| wrong())?.try_into().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, said) in [
            ("", "missing"),
            ("levitate", "'levitate' is not understood; known are arp"),
            ("host 10.0.0", "'10.0.0' is no IP address"),
            ("net 10.0.0.0/33", "up to 32"),
            ("port http", "'http' is not a port's number"),
            ("(tcp", "closing parenthesis"),
            ("tcp udp", "'udp' is one word too many"),
            ("ether host 52:54", "'52:54' is no Ethernet address"),
            ("udp src host 1.2.3.4", "where port N should"),
            ("src", "missing"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(parse(&"(".repeat(200)).unwrap_err().contains("nested"));
        assert!(parse(&"not ".repeat(200)).unwrap_err().contains("nested"));
        assert!(parse(&"tcp or ".repeat(200)).unwrap_err().contains("too many"));
    }

    #[test]
    fn and_binds_closer_than_or() {
        let [a, b, c] = ["arp", "tcp", "port 1"].map(|text| parse(text).unwrap());
        assert_eq!(parse("arp or tcp and port 1").unwrap(), Filter::Or(vec![a, Filter::And(vec![b, c])]));
    }
}
