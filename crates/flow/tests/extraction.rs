//! Fields of generated frames: the same as Open vSwitch's own (`ovs-ofctl parse-pcap`), and no panic.
mod common;

use std::process::Command;

use common::Random;
use flow::{Field, Key, Layers, Match, WINDOW_BYTES, extract, extract_with, protocol};
use proptest::prelude::*;

const FRAMES: usize = 6000;

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

fn neighbor(random: &mut Random) -> Vec<u8> {
    let mut packet = vec![random.of(&[133, 135, 136, 136, 135]), u8::from(random.one_in(8)), 0, 0];
    packet.extend(random.bytes(20));
    for _ in 0..random.below(4) {
        let length = random.of(&[0, 1, 1, 1, 1, 1, 2, 4]);
        packet.extend([random.of(&[1, 1, 2, 2, 5]), length]);
        let body = random.bytes(usize::from(length.max(1)) * 8 - 2);
        packet.extend(if random.one_in(5) { vec![0; body.len()] } else { body });
    }
    packet
}

fn transport(random: &mut Random, protocol: u8) -> Vec<u8> {
    match protocol {
        protocol::ICMPV6 if !random.one_in(4) => neighbor(random),
        protocol::TCP => {
            let mut header = random.bytes(20);
            header[12] = random.of(&[0x50, 0x5f, 0x51, 0x80, 0x40]);
            header
        }
        _ => {
            let length = random.of(&[4, 8, 12, 20, 40]);
            random.bytes(length)
        }
    }
}

fn ipv4(random: &mut Random) -> Vec<u8> {
    let protocol = random.of(&[1, 2, 6, 6, 17, 17, 47, 58, 132]);
    let mut payload = transport(random, protocol);
    let options = random.of(&[0, 0, 0, 4, 40]);
    let mut packet = random.bytes(20 + options);
    packet[0] = 0x45 + (options / 4) as u8;
    packet[6..8]
        .copy_from_slice(&random.of(&[0, 0, 0, 0x4000, 0x2000, 0x2001, 0x0009, 0x8000_u16]).to_be_bytes());
    packet[9] = protocol;
    packet.append(&mut payload);
    let mut total = packet.len() as u16;
    if random.one_in(10) {
        total = total.wrapping_add(random.below(60) as u16).wrapping_sub(40);
    }
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    if random.one_in(12) {
        packet[0] = random.next() as u8;
    }
    packet
}

fn ipv6(random: &mut Random) -> Vec<u8> {
    let last = random.of(&[1, 6, 17, 58, 58, 58, 132, 59]);
    let mut protocols: Vec<u8> = (0..random.below(4)).map(|_| random.of(&[0, 43, 44, 51, 60])).collect();
    protocols.push(last);
    let mut body = Vec::new();
    for (at, next) in protocols.iter().enumerate().skip(1) {
        let of = protocols[at - 1];
        let units = if of == 44 { 0 } else { random.of(&[0, 0, 1, 2, 60]) };
        let length = if of == 51 { 8 + 4 * units } else { 8 + 8 * units };
        let mut header = random.bytes(length);
        header[..2].copy_from_slice(&[*next, units as u8]);
        if of == 44 {
            header[2..4].copy_from_slice(&random.of(&[0, 1, 2, 8, 9, 0xfff8_u16]).to_be_bytes());
        }
        body.append(&mut header);
    }
    body.append(&mut transport(random, last));
    let mut packet = random.bytes(40);
    packet[0] = packet[0] & 0xf | 0x60;
    let mut length = body.len() as u16;
    if random.one_in(10) {
        length = length.wrapping_add(random.below(60) as u16).wrapping_sub(40);
    }
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet[6] = protocols[0];
    packet.append(&mut body);
    packet
}

fn arp(random: &mut Random) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, u8::from(random.one_in(8)), random.of(&[1, 2, 3, 255])];
    packet.extend(random.bytes(20));
    if random.one_in(6) {
        let at = random.below(6);
        packet[at] = random.next() as u8;
    }
    packet
}

fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = random.bytes(12);
    for _ in 0..random.of(&[0, 0, 0, 1, 1, 2, 3]) {
        frame.extend(random.of(&[0x8100_u16, 0x8100, 0x88a8]).to_be_bytes());
        frame.extend(random.bytes(2));
    }
    let (kind, mut packet) = match random.below(10) {
        0 => (random.of(&[protocol::ARP, protocol::RARP]), arp(random)),
        1 => (random.of(&[0x88cc, 0x0600, 0x05ff, 64, protocol::IPV4, protocol::IPV6]), random.bytes(46)),
        2..5 => (protocol::IPV4, ipv4(random)),
        _ => (protocol::IPV6, ipv6(random)),
    };
    if random.one_in(12) {
        let length = packet.len() + 8;
        frame.extend((length as u16).to_be_bytes());
        frame.extend([0xaa, random.of(&[0xaa, 0xaa, 0x42]), 3, 0, 0, 0]);
    }
    frame.extend(kind.to_be_bytes());
    frame.append(&mut packet);
    match random.below(8) {
        0 => frame.truncate(random.below(frame.len()) + 1),
        1 => frame.resize(frame.len() + random.below(60), 0),
        _ => {}
    }
    frame
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let words =
        |file: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|word| file.extend(word.to_le_bytes()));
    words(&mut file, &[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65535, 1]);
    for frame in frames {
        words(&mut file, &[0, 0, frame.len() as u32, frame.len() as u32]);
        file.extend(frame);
    }
    file
}

/// The text of all fields that a frame of this kind has. Open vSwitch prints no others.
fn text(key: &Key) -> String {
    let mut wanted = Match::ANY;
    let mut add = |fields: &[Field]| fields.iter().for_each(|field| wanted.set(*field, key.get(*field)));
    add(&[Field::VlanTci, Field::EthDst, Field::EthSrc, Field::EthType]);
    if key.get(Field::VlanTci) != 0 {
        add(&[Field::InnerTci]);
    }
    let kind = key.get(Field::EthType) as u16;
    match kind {
        protocol::IPV4 => add(&[Field::IpSrc, Field::IpDst]),
        protocol::IPV6 => add(&[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label]),
        protocol::ARP | protocol::RARP => {
            add(&[Field::ArpSpa, Field::ArpTpa, Field::ArpOp, Field::ArpSha, Field::ArpTha]);
        }
        _ => {}
    }
    if matches!(kind, protocol::IPV4 | protocol::IPV6) {
        add(&[Field::NwProto, Field::NwTos, Field::NwTtl, Field::IpFrag]);
        let later = key.get(Field::IpFrag) & 2 != 0;
        match key.get(Field::NwProto) as u8 {
            _ if later => {}
            protocol::TCP => add(&[Field::TcpSrc, Field::TcpDst, Field::TcpFlags]),
            protocol::UDP | protocol::SCTP | protocol::ICMP | protocol::IGMP => {
                add(&[Field::TcpSrc, Field::TcpDst]);
            }
            protocol::ICMPV6 => {
                add(&[Field::TcpSrc, Field::TcpDst]);
                let neighbor = protocol::is_neighbor(key.get(Field::IcmpType) as u8);
                if kind == protocol::IPV6 && neighbor && key.get(Field::IcmpCode) == 0 {
                    add(&[Field::NdTarget, Field::NdSll, Field::NdTll]);
                }
            }
            _ => {}
        }
    }
    wanted.set(Field::InPortOxm, 0xffff);
    wanted.to_string()
}

#[test]
fn fields_are_those_that_openvswitch_reads() {
    let mut random = Random(1);
    let frames: Vec<_> = (0..FRAMES).map(|_| frame(&mut random)).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frames.pcap");
    std::fs::write(&file, pcap(&frames)).unwrap();
    let ofctl = peers::ovs::programs().unwrap().ofctl;
    let output = Command::new(ofctl).arg("parse-pcap").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<_> = said.lines().collect();
    assert_eq!(said.len(), FRAMES);
    let (mut beyond, mut wrong) = (0, Vec::new());
    for (frame, said) in frames.iter().zip(said) {
        let read = |window: usize| extract(&frame[..window.min(frame.len())], frame.len(), 2);
        let (key, layers) = read(flow::WINDOW_BYTES);
        // Where the headers are longer than the window, Open vSwitch's fields are of no use as an oracle.
        let headers = frame.len() > flow::WINDOW_BYTES && layers.transport.is_none_or(|at| at > 200);
        if headers {
            beyond += 1;
            continue;
        }
        let ours = text(&key);
        if ours != said {
            wrong.push(format!("{frame:02x?}\n  Open vSwitch: {said}\n  read here:    {ours}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {FRAMES} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
    assert!(beyond < FRAMES / 8, "{beyond}");
}

proptest! {
    #[test]
    fn no_bytes_and_no_length_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), seed: u64, cut: usize, more: u16) {
        let (_, layers) = extract(&bytes, bytes.len() + usize::from(more), 2);
        prop_assert!(usize::from(layers.network) <= flow::WINDOW_BYTES);
        let frame = frame(&mut Random(seed));
        let window = &frame[..cut % (frame.len() + 1)];
        extract(window, frame.len(), 1);
        // A frame that is shorter than what is said to be its window.
        extract(&frame, window.len(), 2);
    }

    /// A frame of whose beginning a part is known gives the fields of the whole beginning, which is asked for at most once.
    #[test]
    fn a_longer_window_is_read_where_the_first_one_ends(seed: u64, cut: usize) {
        let frame = frame(&mut Random(seed));
        let whole = &frame[..frame.len().min(WINDOW_BYTES)];
        let mut key = Key::ZERO;
        key.set(Field::Metadata, 7);
        let (mut longer, mut asked) = (Some(whole), 0);
        let mut more = || {
            asked += usize::from(longer.is_some());
            longer.take()
        };
        let (layers, window) = extract_with(&whole[..cut % (whole.len() + 1)], frame.len(), 2, &mut key, &mut more);
        let (mut expected, expected_layers) = extract(whole, frame.len(), 2);
        expected.set(Field::Metadata, 7);
        prop_assert_eq!((key, layers), (expected, expected_layers));
        prop_assert_eq!(window, if asked == 1 { whole } else { &whole[..cut % (whole.len() + 1)] });
    }
}

#[test]
fn layers_are_where_the_headers_are() {
    let mut frame = vec![2; 12];
    frame.extend([
        0x81, 0, 0, 5, 8, 0, 0x46, 0, 0, 32, 0, 0, 0, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1,
    ]);
    frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    let (key, layers) = extract(&frame, frame.len(), 2);
    assert_eq!(layers, Layers { tags: 1, network: 18, transport: Some(42), is_cut: false });
    assert_eq!((key.get(Field::UdpSrc), key.get(Field::UdpDst), key.get(Field::VlanVid)), (1, 2, 0x1005));
    // A tag that is not read is the frame's type.
    let (key, layers) = extract(&frame, frame.len(), 0);
    assert_eq!((key.get(Field::EthType), layers.tags), (0x8100, 0));
}
