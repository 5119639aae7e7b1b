//! The chassis of OVN whose flows were recorded: its machines, and its tables for both switches.
use std::sync::Arc;

use flow::{Controller, Field, Flow, Group, Key, Learn, Meter, NatSide};
use flow_tables::{Change, Connection, HeaderWindow, Limits, Surroundings, Tables, Track};

use super::peer::Peer;

const PIPELINE: &str = include_str!("../data/ovn-23.03.txt");
/// Input ports, each with the addresses of its machine.
pub const MACHINES: [(u16, [u8; 6], [u8; 4]); 4] = [
    (4, [0xfa, 0x16, 0x3e, 1, 0, 0x11], [10, 1, 0, 11]),
    (5, [0xfa, 0x16, 0x3e, 2, 0, 0x13], [10, 2, 0, 13]),
    (6, [0xfa, 0x16, 0x3e, 1, 0, 0x15], [10, 1, 0, 15]),
    (7, [0x0a, 0x58, 0x0a, 0xf4, 1, 5], [10, 244, 1, 5]),
];
pub const TO: [[u8; 6]; 7] = [
    [0xfa, 0x16, 0x3e, 1, 0, 0x11],
    [0xfa, 0x16, 0x3e, 1, 0, 0x12],
    [0xfa, 0x16, 0x3e, 2, 0, 0x13],
    [0xfa, 0x16, 0x3e, 0, 0, 1],
    [0xfa, 0x16, 0x3e, 0, 0, 2],
    [0xff; 6],
    [0x0a, 0x58, 0x0a, 0xf4, 1, 1],
];
pub const ADDRESSES: [[u8; 4]; 10] = [
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
pub struct AllNew;

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

/// Flows, groups and meters, for both.
pub fn load(peer: &Peer) -> Tables {
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
