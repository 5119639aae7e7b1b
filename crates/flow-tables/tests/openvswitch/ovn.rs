//! The flows that OVN 23.03 gave a chassis: virtual machines, a gateway, load balancers, security groups.
use std::sync::Arc;

use flow::{Controller, Field, Flow, Group, Key, Learn, Meter, NatSide};
use flow_tables::{Change, Connection, HeaderWindow, Limits, Surroundings, Tables, Track};

use super::common::Random;
use super::flows::of;
use super::frames::below;
use super::hex;
use super::peer::Peer;
use super::trace::passed;

/// Frames for each set of random tables in the other test.
const FRAMES: usize = 10;
const PIPELINE: &str = include_str!("../data/ovn-23.03.txt");
/// Input ports, each with the addresses of its machine.
const MACHINES: [(u16, [u8; 6], [u8; 4]); 4] = [
    (4, [0xfa, 0x16, 0x3e, 1, 0, 0x11], [10, 1, 0, 11]),
    (5, [0xfa, 0x16, 0x3e, 2, 0, 0x13], [10, 2, 0, 13]),
    (6, [0xfa, 0x16, 0x3e, 1, 0, 0x15], [10, 1, 0, 15]),
    (7, [0x0a, 0x58, 0x0a, 0xf4, 1, 5], [10, 244, 1, 5]),
];
const TO: [[u8; 6]; 7] = [
    [0xfa, 0x16, 0x3e, 1, 0, 0x11],
    [0xfa, 0x16, 0x3e, 1, 0, 0x12],
    [0xfa, 0x16, 0x3e, 2, 0, 0x13],
    [0xfa, 0x16, 0x3e, 0, 0, 1],
    [0xfa, 0x16, 0x3e, 0, 0, 2],
    [0xff; 6],
    [0x0a, 0x58, 0x0a, 0xf4, 1, 1],
];
const ADDRESSES: [[u8; 4]; 10] = [
    [10, 1, 0, 11],
    [10, 1, 0, 12],
    [10, 2, 0, 13],
    [10, 2, 0, 14],
    [10, 1, 0, 100],
    [203, 0, 113, 1],
    [8, 8, 8, 8],
    [10, 96, 0, 20],
    [10, 244, 2, 5],
    [198, 18, 0, 9],
];

/// Every connection is new, and is translated to the first address of its range: what `ofproto/trace` assumes.
struct AllNew;

impl Surroundings for AllNew {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    }

    fn is_live(&self, port: u16) -> bool {
        self.ports().contains(&port)
    }

    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection {
        let mut state = 0x21; // tracked, new
        if let Some(nat) = track.nat
            && let (Some(side), Some((std::net::IpAddr::V4(first), _))) = (nat.side, nat.addresses)
        {
            let (bit, address, port) = match side {
                NatSide::Source => (0x40, Field::IpSrc, Field::TcpSrc),
                NatSide::Destination => (0x80, Field::IpDst, Field::TcpDst),
            };
            state |= bit;
            let mut key = *window.held();
            key.set(address, u32::from(first).into());
            if let Some((first, _)) = nat.ports {
                key.set(port, first.into());
            }
            window.write(&key);
        }
        Connection { state, ..Connection::default() }
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

fn frame(random: &mut Random) -> (u16, Vec<u8>) {
    let (port, mut source, address) = of(random, &MACHINES);
    if below(random, 10) == 0 {
        source = [2, 0, 0, 0, 0, 0x99];
    }
    let mut frame = of(random, &TO).to_vec();
    frame.extend(source);
    let to = of(random, &ADDRESSES);
    if below(random, 8) == 0 {
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + below(random, 2) as u8]);
        frame.extend(source);
        frame.extend(address);
        frame.extend([0; 6]);
        frame.extend(to);
        frame.resize(60, 0);
        return (port, frame);
    }
    let protocol = of(random, &[6, 17, 1_u8]);
    let mut payload = (1024 + below(random, 60_000) as u16).to_be_bytes().to_vec();
    match protocol {
        6 => {
            payload.extend(of(random, &[22, 80, 443, 8050, 8080_u16]).to_be_bytes());
            payload.extend([
                0,
                0,
                0,
                1,
                0,
                0,
                0,
                0,
                0x50,
                of(random, &[2, 0x10, 0x12, 1]),
                0x20,
                0,
                0,
                0,
                0,
                0,
            ]);
        }
        17 => {
            payload.extend(of(random, &[53, 67, 5000_u16]).to_be_bytes());
            payload.extend([0, 20, 0, 0]);
            payload.extend([7; 12]);
        }
        _ => payload = vec![8, 0, 0, 0, 0, 1, 0, 1],
    }
    payload.resize(payload.len() + below(random, 80), 5);
    frame.extend([8, 0, 0x45, of(random, &[0, 0, 0xb8])]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, of(random, &[1, 64, 255]), protocol, 0, 0]);
    frame.extend(address);
    frame.extend(to);
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    (port, frame)
}

/// Flows, groups and meters, for both.
fn load(peer: &Peer) -> Tables {
    let mut tables = Tables::new(1, 3, Limits::default());
    let mut flows = Vec::new();
    peer.ofctl("add-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0");
    for line in PIPELINE.lines() {
        if line.starts_with("group_id=") {
            peer.ofctl("add-group", line);
            tables.set_group(Group::parse(line).unwrap()).unwrap();
        } else if line.starts_with("meter=") {
            peer.ofctl("add-meter", &Meter::parse(line).unwrap().to_string());
        } else {
            tables.change(Change::Add(Flow::parse(line).unwrap()), 0).unwrap();
            flows.push(line.to_owned());
        }
    }
    peer.set_flows(&flows);
    assert_eq!(tables.flows(), flows.len());
    tables
}

/// Each frame passes the flows that it passes in Open vSwitch's `ofproto/trace`.
#[test]
fn frames_pass_the_same_flows_of_ovn_as_in_openvswitch() {
    let peer = Peer::without_groups(10);
    let tables = load(&peer);
    let mut random = Random(61);
    let (mut chosen, mut longest) = (0, 0);
    let frames = FRAMES * super::sets();
    for _ in 0..frames {
        let (input, frame) = frame(&mut random);
        let mut metadata = Key::ZERO;
        metadata.set(Field::InPortOxm, input.into());
        let ours = tables.trace(&frame, frame.len(), &metadata, &mut AllNew);
        // Which bucket a hash selects is each switch's own. Open vSwitch follows both outcomes of a check of the length.
        if ours.contains("group:") || ours.contains("check_pkt_larger") {
            chosen += 1;
            continue;
        }
        let theirs = peer.trace(input, &hex(&frame));
        let (mut one, mut other) = (passed(&ours), passed(&theirs));
        longest = longest.max(one.len());
        // Connections are looked up at once here; Open vSwitch does it when all other actions are done.
        one.sort();
        other.sort();
        assert_eq!(one, other, "frame {}\n{ours}\n{theirs}", hex(&frame));
    }
    assert!(chosen < frames / 2 && longest > 40, "{chosen} frames met groups; {longest} flows");
}
