use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

#[test]
fn what_is_not_understood_is_named() {
    for (text, said) in [
        ("", "missing"),
        ("levitate", "'levitate' is not understood; known are arp"),
        ("host 10.0.0", "'10.0.0' is no IP address"),
        ("net 10.0.0.0/33", "up to 32"),
        ("net 10.0.0.1/8", "bits outside of the network's"),
        ("port http", "'http' is not a port's number"),
        ("port 65536", "'65536' is not a port's number"),
        ("portrange 1-x", "'1-x' is no range"),
        ("(tcp", "closing parenthesis"),
        ("tcp udp", "'udp' is one word too many"),
        ("tcp or 53", "'53' is not understood"),
        ("(port 53) or 80", "'80' is not understood"),
        ("vlan 4096", "'4096' is not a VLAN's number"),
        ("ether host 52:54", "'52:54' is no Ethernet address"),
        ("ether proto 0x10000", "no EtherType"),
        ("ether proto 0x42", "LLC header"),
        ("ip proto 256", "no IP protocol"),
        ("src proto 6", "neither src nor dst"),
        ("udp src host 1.2.3.4", "'udp' has no IPv4 address"),
        ("ip host fd00::1", "'ip' has no IPv6 address"),
        ("icmp port 53", "icmp has no ports"),
        ("tcp[13] & 2 != 0", "'tcp[13]' is not understood"),
        ("src", "missing"),
        // No frame is of both, or has such a length.
        ("tcp and udp", "no frame can match"),
        ("ip and port 53 and arp", "no frame can match"),
        ("vlan 5 and not vlan 6 and less 10 and greater 20", "no frame can match"),
        ("not (ip or not ip)", "no frame can match"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
    assert!(parse(&"(".repeat(200)).unwrap_err().contains("nested"));
    assert!(parse(&"not ".repeat(200)).unwrap_err().contains("nested"));
    assert!(parse(&"tcp or ".repeat(200)).unwrap_err().contains("too many"));
    assert!(parse(&format!("{} tcp", "vlan or ".repeat(20))).unwrap_err().contains("more than 16 times"));
    // Conditions that are too many to search through are taken.
    assert!(parse(&["(port 53 or not port 80)"; 25].join(" and ")).is_ok());
    assert!(parse(&format!("{} and tcp and udp", ["(port 53 or not port 80)"; 25].join(" and "))).is_ok());
}

#[test]
fn what_is_cut_or_no_frame_at_all_is_no_error() {
    let filter = parse("not (port 53 or host ::1 or vlan and port 80)").unwrap();
    for frame in frames() {
        for bytes in 0..frame.len() {
            let _ = filter.matches(&frame[..bytes.min(HEADER_BYTES)], bytes);
        }
    }
}

/// All that a filter can ask of a frame lies within the bytes that it is given.
#[test]
fn the_deepest_field_is_within_the_header_bytes() {
    // The last bytes that are looked at say whether the port is one.
    let mut frame = ipv4(UDP, 15, 0, 1000, 53);
    for _ in 0..16 {
        frame = tagged(0x8100, 7, frame);
    }
    let filter = parse(&format!("{}port 53", "vlan and ".repeat(16))).unwrap();
    assert!(filter.matches(&frame[..HEADER_BYTES], frame.len()));
    assert!(!filter.matches(&frame[..HEADER_BYTES - 1], frame.len()));
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ICMP: u8 = 1;
const HOP_BY_HOP: u8 = 0;

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    [&addresses[..], &ether_type.to_be_bytes(), payload].concat()
}

fn tagged(tag: u16, id: u16, mut frame: Vec<u8>) -> Vec<u8> {
    let tag = [tag.to_be_bytes(), (0xe000 | id).to_be_bytes()].concat();
    frame.splice(12..12, tag);
    frame
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, 20, 0, 0, 1, 2, 3, 4]].concat()
}

/// A packet from 10.0.0.1 to 10.0.0.2, whose header has `words` words and this fragment field.
fn ipv4(protocol: u8, words: u8, fragment: u16, source: u16, destination: u16) -> Vec<u8> {
    let mut header = vec![0x40 | words, 0, 0, 60, 0, 1];
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header.resize(4 * usize::from(words).max(5), 1);
    ethernet(0x0800, &[header, ports(source, destination)].concat())
}

/// fd00::1 to fd00::2, with extension headers of 8 bytes before the protocol.
fn ipv6(extensions: &[u8], protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    let mut next = extensions.iter().copied().chain([protocol]);
    let mut packet = vec![0x60, 0, 0, 0, 0, 60, next.next().unwrap(), 64];
    for last in [1, 2] {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    next.for_each(|next| packet.extend([next, 0, 0, 1, 0, 0, 0, 53]));
    ethernet(0x86dd, &[packet, ports(source, destination)].concat())
}

fn arp(ether_type: u16) -> Vec<u8> {
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    ethernet(ether_type, &arp)
}

/// Frames of every kind that an expression tells apart, tagged or not, and some of them cut.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = vec![arp(0x0806), arp(0x8035), ethernet(0x88f7, &[1; 46]), ethernet(38, &[0x42; 46])];
    for protocol in [TCP, UDP, SCTP, ICMP, 2, 47, 50, 51, 58, 89] {
        frames.push(ipv4(protocol, 5, 0, 1000, 53));
        frames.push(ipv6(&[], protocol, 1000, 53));
        frames.push(ipv6(&[flow::protocol::IPV6_FRAGMENT], protocol, 1000, 53));
    }
    for (source, destination) in [(53, 1000), (53, 53), (80, 8000), (8080, 80), (65_535, 0)] {
        for protocol in [TCP, UDP, SCTP] {
            frames.push(ipv4(protocol, 5, 0x4000, source, destination));
            frames.push(ipv6(&[], protocol, source, destination));
        }
        // The first fragment has ports, the others bytes in their place; a header may have options.
        frames.push(ipv4(UDP, 5, 0x2000, source, destination));
        frames.push(ipv4(UDP, 5, 0x2010, source, destination));
        frames.push(ipv4(TCP, 7, 0, source, destination));
        frames.push(ipv4(TCP, 15, 0x2000, source, destination));
        frames.push(ipv4(SCTP, 2, 0, source, destination));
        frames.push(ipv6(&[HOP_BY_HOP], UDP, source, destination));
    }
    let mut others = ipv4(UDP, 5, 0, 53, 53);
    others[26..34].copy_from_slice(&[192, 168, 0, 9, 239, 1, 2, 3]);
    others[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
    frames.push(others);
    let mut others = ipv6(&[], TCP, 53, 53);
    others[38] = 0xff;
    others[..6].copy_from_slice(&[0xff; 6]);
    frames.push(others);
    let plain = frames.clone();
    for (index, frame) in plain.into_iter().enumerate() {
        let tag = [0x8100, 0x88a8, 0x9100, 0x9200][index % 4];
        let once = tagged(tag, [7, 8, 0, 4095][index / 4 % 4], frame.clone());
        let cut = index * 7 % (frame.len() + 1);
        frames.extend([frame[..cut].to_vec(), tagged(0x8100, 8, once.clone()), once]);
    }
    frames
}

const EVERYDAY: &[&str] = &[
    "port 53 or 80",
    "port 53 or 80 and tcp",
    "udp port 53 and not net 10.0.0.0/8",
    "sctp port 53",
    "sctp and port 53",
    "portrange 8000-8080 or 50-60",
    "portrange 8080-8000",
    "tcp portrange 50-60",
    "src portrange 50-60 or dst port 80",
    "port (53 or 80)",
    "not port (53 or 80) or 1000",
    "port not 53",
    "port 53 or (udp and src port 80) or 80",
    "src port 0x35 or 0120",
    "src or dst port 53",
    "dst and src port 53",
    "ip host 10.0.0.1",
    "host 10.0.0.1 or 192.168.0.9 or fd00::1",
    "src 10.0.0.1",
    "dst fd00::2 and not ip",
    "src host 10.0.0.2 or dst net 239.0.0.0/8",
    "net 10.0.0.0 mask 255.255.0.0",
    "arp net 10.0.0.0/24",
    "arp host 10.0.0.2",
    "rarp or arp src host 10.0.0.1",
    "ip6 net fd00::/9",
    "ip6 host fd00::2 or ether host 02:00:00:00:00:03",
    "net 0.0.0.0/0 and !(net ::/0)",
    "ip proto 132",
    "ip proto \\udp or \\tcp",
    "ip6 proto 58",
    "proto 17",
    "ip proto gre",
    "ether proto 0x88f7 or \\arp",
    "icmp or icmp6 or igmp or ah or esp",
    "ip multicast or ip6 multicast",
    "ether multicast and not ether broadcast",
    "broadcast or multicast",
    "ether src 02:00:00:00:00:01 and ether dst host 02:00:00:00:00:02",
    "greater 60 and less 70",
    "less 12",
    "not greater 60",
    "vlan",
    "vlan 7",
    "vlan 0",
    "vlan and port 53",
    "not vlan",
    "not vlan and port 53",
    "vlan and vlan 8 and udp",
    "vlan 7 or vlan 8",
    "port 53 or vlan and port 53",
    "port 53 or (vlan and (port 53 or vlan and port 53))",
    "vlan && (ip || arp) && !icmp",
    "vlan and ether host 02:00:00:00:00:01",
    "not port 53",
    "not host 10.0.0.1",
    "not net fd00::/16 and greater 20",
];

/// A random expression of at most `primitives` primitives, with parentheses and negations.
fn expression(random: &mut StdRng, primitives: u32) -> String {
    if primitives <= 1 {
        return EVERYDAY[random.random_range(0..EVERYDAY.len())].to_owned();
    }
    let of_first = random.random_range(1..primitives);
    let [first, second] = [of_first, primitives - of_first].map(|part| expression(random, part));
    match random.random_range(0..6) {
        0 => format!("not ({first})"),
        1 => format!("({first}) and {second}"),
        2 => format!("{first} and ({second})"),
        3 => format!("{first} and {second}"),
        4 => format!("{first} or ({second})"),
        _ => format!("{first} or {second}"),
    }
}

/// A capture of these frames; each has its number as its time.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (number, frame) in (0u32..).zip(frames) {
        let bytes = frame.len() as u32;
        file.extend([number, 0, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

/// The frames that tcpdump keeps, or its error; `without_optimizer` is "-O" or nothing.
fn kept_by_tcpdump(
    capture: &[u8],
    expression: &str,
    without_optimizer: Option<&str>,
) -> Result<BTreeSet<u32>, String> {
    // As root it would become another user, which may not read everything.
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(capture).unwrap();
    std::io::Seek::rewind(&mut input).unwrap();
    let tcpdump = Command::new("tcpdump")
        .args(without_optimizer)
        .args(["-r", "-", "-w", "-", "--", expression])
        .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::from(input))
        .output()
        .expect("tcpdump starts (scripts/setup.sh test installs it)");
    if !tcpdump.status.success() {
        let said = String::from_utf8_lossy(&tcpdump.stderr).into_owned();
        return if said.contains("rejects all packets") { Ok(BTreeSet::new()) } else { Err(said) };
    }
    let mut records = tcpdump.stdout.get(24..).expect("a capture's header");
    let mut kept = BTreeSet::new();
    while let Some((header, rest)) = records.split_first_chunk::<16>() {
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        kept.insert(word(0));
        records = &rest[word(8) as usize..];
    }
    Ok(kept)
}

/// At least 5,000 pairs of a frame and an expression have the outcome that tcpdump gives them.
///
/// A frame that ends before a field is not kept if that field is read, and tcpdump's optimizer reads fewer fields. If
/// tcpdump with and without the optimizer disagree about a frame, both results are accepted.
#[test]
fn every_expression_keeps_the_frames_that_tcpdump_keeps() {
    let frames = frames();
    let capture = capture(&frames);
    let mut random = StdRng::seed_from_u64(1);
    let generated = std::iter::repeat_with(|| expression(&mut random, 3));
    let (mut pairs, mut impossible, mut kept_frames) = (0, 0, 0);
    for expression in EVERYDAY.iter().map(|text| (*text).to_owned()).chain(generated.take(240)) {
        match (parse(&expression), kept_by_tcpdump(&capture, &expression, None)) {
            (Ok(filter), Ok(expected)) => {
                let plain = kept_by_tcpdump(&capture, &expression, Some("-O")).unwrap();
                let is_kept =
                    |frame: &[u8]| filter.matches(&frame[..frame.len().min(HEADER_BYTES)], frame.len());
                for (number, frame) in (0u32..).zip(&frames) {
                    let outcomes = [expected.contains(&number), plain.contains(&number)];
                    let ours = is_kept(frame);
                    assert!(outcomes.contains(&ours), "{expression}: frame {number} {ours}: {frame:02x?}");
                }
                pairs += frames.len();
                kept_frames += expected.len();
            }
            // tcpdump finds out about some of these, and keeps nothing by the others.
            (Err(error), expected) => {
                assert!(error.contains("no frame can match"), "{expression}: {error}");
                assert!(expected.is_err() || expected.is_ok_and(|kept| kept.is_empty()), "{expression}");
                impossible += 1;
            }
            (Ok(_), Err(said)) => panic!("{expression}: tcpdump says {said}"),
        }
    }
    println!("{pairs} pairs, {kept_frames} of them kept; {impossible} expressions match nothing");
    assert!(pairs >= 5_000 && kept_frames * 10 > pairs, "{pairs} pairs, {kept_frames} kept");
}

/// A first fragment, SCTP, a tagged frame and a plain one, as `tcpdump -r FILE 'port 53'` has them.
#[test]
fn first_fragments_and_sctp_have_ports() {
    let frames = [
        ipv4(UDP, 5, 0x2000, 1000, 53),
        ipv4(SCTP, 5, 0, 53, 5000),
        tagged(0x8100, 7, ipv4(UDP, 5, 0, 1000, 53)),
        ipv4(UDP, 5, 0, 1000, 53),
        ipv4(UDP, 5, 0x2001, 1000, 53),
    ];
    for (text, expected) in [
        ("port 53", &[0, 1, 3][..]),
        ("udp port 53", &[0, 3]),
        ("sctp and port 53", &[1]),
        ("sctp port 53", &[1]),
        ("port 53 or vlan and port 53", &[2]),
        ("port 53 or (vlan and port 53)", &[0, 1, 2, 3]),
    ] {
        let filter = parse(text).unwrap();
        let kept: Vec<usize> =
            (0..frames.len()).filter(|at| filter.matches(&frames[*at], frames[*at].len())).collect();
        assert_eq!(kept, expected, "{text}");
    }
}
