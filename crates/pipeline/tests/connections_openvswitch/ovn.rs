//! The machines of OVN's chassis send frames, and answer those that they get. What leaves by each port is what Open vSwitch
//! sends, byte for byte, with the connection tracking and the translations of each switch. Outcomes are kept in caches.
use std::collections::VecDeque;
use std::net::Ipv4Addr;

use flow::{Field, Key, Meter};
use flow_tables::{Cache, HeaderWindow, Outcome, Tables};
use pipeline::Connections;

use super::chassis::{ADDRESSES, AllNew, MACHINES, TO, load};
use super::datagrams::{ACK, Ends, Random, SYN, Tcp, below, echo, of, sum, udp};
use super::{Around, differences, hex, peer};

/// Frames for each set that `TAUTLINE_FLOW_TABLES` asks for, of which there are 200 otherwise.
const FRAMES: usize = 20;
const PORTS: [u16; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// Frames in a burst: Open vSwitch's dummy ports drop what comes while 100 frames wait.
const BURST: usize = 40;

fn metadata(port: u16) -> Key {
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, port.into());
    metadata
}

/// A frame of a machine. Each has a connection of its own by its number.
fn frame(random: &mut Random, machine: usize, number: u16) -> Vec<u8> {
    let (_, mut source, address) = MACHINES[machine];
    if below(random, 20) == 0 {
        source = [2, 0, 0, 0, 0, 0x99];
    }
    let (mut station, mut to) = (of(random, &TO), of(random, &ADDRESSES));
    if below(random, 2) == 0 {
        // Another machine, on the same logical switch or behind the router.
        (_, station, to) = of(random, &MACHINES);
        if to[1] != address[1] {
            station = [0xfa, 0x16, 0x3e, 0, 0, address[1]];
        }
    }
    let mut frame = station.to_vec();
    frame.extend(source);
    if below(random, 10) == 0 {
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + below(random, 2) as u8]);
        frame.extend(source);
        frame.extend(address);
        frame.extend([0; 6]);
        frame.extend(to);
        frame.resize(60, 0);
        return frame;
    }
    let mut ends =
        Ends { from: Ipv4Addr::from(address).into(), to: Ipv4Addr::from(to).into(), ports: [number; 2] };
    let mut datagram = match below(random, 3) {
        0 => {
            ends.ports[1] = of(random, &[22, 80, 443, 8050, 8080]);
            Tcp::new(of(random, &[SYN, SYN, ACK]), 99, 0).datagram(ends)
        }
        1 => {
            ends.ports[1] = of(random, &[53, 67, 5000]);
            udp(ends, &vec![7; below(random, 80)])
        }
        _ => echo(ends, false, number),
    };
    datagram[1] = of(random, &[0, 0, 0xb8]);
    datagram[8] = of(random, &[1, 64, 64, 64, 255]);
    datagram[10..12].fill(0);
    let header = sum(&datagram[..20]).to_be_bytes();
    datagram[10..12].copy_from_slice(&header);
    frame.extend([8, 0]);
    frame.extend(datagram);
    frame
}

/// The answer of the machine that gets a frame, if it answers.
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (ethernet, datagram) = frame.split_at_checked(14)?;
    if ethernet[12..] != [8, 0] || datagram.len() < 28 {
        return None;
    }
    let word = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
    let address = |at: usize| Ipv4Addr::from_octets(*datagram[at..].first_chunk().unwrap()).into();
    let ends = Ends { from: address(16), to: address(12), ports: [word(22), word(20)] };
    let long = |at: usize| u32::from_be_bytes(*datagram[at..].first_chunk().unwrap());
    let answer = match (datagram[9], datagram[20]) {
        (1, 8) => echo(ends, true, word(24)),
        (6, _) => match datagram[33] {
            SYN => Tcp::new(SYN | ACK, 7000, long(24) + 1),
            flags if flags == SYN | ACK => Tcp::new(ACK, long(28), long(24) + 1),
            _ => return None,
        }
        .datagram(ends),
        // A datagram of this length answers one.
        (17, _) if datagram.len() != 28 + 81 => udp(ends, &[9; 81]),
        _ => return None,
    };
    Some([&ethernet[6..12], &ethernet[..6], &[8, 0], &answer].concat())
}

/// What each port sends of these frames.
fn expected(
    tables: &Tables,
    connections: &Connections,
    cache: &mut Cache,
    input: u16,
    frames: &[Vec<u8>],
) -> Vec<Vec<Vec<u8>>> {
    let mut sent = vec![Vec::new(); PORTS.len()];
    let mut outcome = Outcome::default();
    for frame in frames {
        let mut around = Around { connections, port: input, ports: &PORTS };
        let mut window = HeaderWindow::new(frame, frame.len(), 1);
        cache.execute(tables, &mut window, &mut around, &mut outcome);
        for delivery in &outcome.deliveries {
            let bytes = outcome.header(&delivery.header).to_vec();
            assert_eq!(bytes.len(), delivery.header.frame_bytes);
            sent[usize::from(delivery.port) - 1].push(bytes);
        }
    }
    sent
}

#[test]
fn frames_of_ovns_machines_leave_as_openvswitch_sends_them() {
    let mut random = Random(67);
    let mut peer = peer::Peer::without_groups(10);
    let mut tables = load(&peer);
    // No meter drops a frame: which frames of a burst come first is each switch's own.
    for id in 1..=4 {
        let meter = format!("meter={id},kbps,bands=type=drop,rate=4000000000");
        peer.ofctl("mod-meter", &meter);
        tables.set_meter(Meter::parse(&meter).unwrap(), 0).unwrap();
    }
    let sets = std::env::var("TAUTLINE_FLOW_TABLES").map_or(200, |sets| sets.parse().unwrap());
    let wanted = FRAMES * sets;
    let connections = Connections::new(11);
    let mut caches = PORTS.map(|port| Cache::new(4096, &metadata(port)));
    let mut answers = MACHINES.map(|_| VecDeque::new());
    let (mut frames, mut left, mut answered, mut left_out, mut wrong) = (0, 0, 0, 0, Vec::new());
    let mut number = 1024_u16;
    while frames < wanted && wrong.len() < 5 {
        for (machine, (input, ..)) in MACHINES.into_iter().enumerate() {
            let mut burst = Vec::new();
            while burst.len() < BURST {
                number = number.checked_add(1).unwrap_or(1024);
                let next = answers[machine].pop_front();
                answered += usize::from(next.is_some());
                let next = next.unwrap_or_else(|| frame(&mut random, machine, number));
                let trace = tables.trace(&next, next.len(), &metadata(input), &mut AllNew);
                // A bucket is chosen by each switch's own hash, and flows are not learned here.
                match ["group:", "learn("].iter().any(|action| trace.contains(action)) {
                    true => left_out += 1,
                    false => burst.push(next),
                }
            }
            let index = usize::from(input) - 1;
            let ours = expected(&tables, &connections, &mut caches[index], input, &burst);
            let theirs = peer.send(input, &burst);
            frames += burst.len();
            left += ours.iter().map(Vec::len).sum::<usize>();
            let differ = differences(&ours, &theirs);
            if !differ.is_empty() {
                let sent: Vec<_> = burst.iter().map(|frame| hex(frame)).collect();
                wrong.push(format!("{}\nof those that came by {input}: {sent:#?}", differ.join("\n")));
            }
            for ((port, own, _), answers) in MACHINES.iter().zip(&mut answers) {
                let received = ours[usize::from(*port) - 1].iter().filter(|frame| frame[..6] == *own);
                answers.extend(received.filter_map(|frame| answer(frame)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let hits: u64 = caches.iter().map(|cache| cache.counts().hits).sum();
    let begun = connections.counters().begun;
    let counts = format!(
        "{frames} frames, {left_out} left out, {answered} answers, {left} left, {begun} connections, {hits} hits"
    );
    println!("{counts}");
    assert!(left > frames / 6 && answered > frames / 50 && left_out < frames, "{counts}");
    assert!(begun as usize > frames / 8 && hits as usize > frames / 4, "{counts}");
}
