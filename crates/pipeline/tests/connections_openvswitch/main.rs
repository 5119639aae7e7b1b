//! Connections beside Open vSwitch: conversations of two hosts, over flow tables that track, translate and mark. The frames
//! that leave, and with them the states, must be those of Open vSwitch's user-space datapath, byte for byte.
//!
//! The conversations are in order. Segments outside of the windows are judged as by Linux, and Linux is the judge there:
//! `crates/conntrack/tests/linux`.
#[path = "../../../flow-tables/tests/openvswitch/chassis.rs"]
mod chassis;
#[path = "../../../conntrack/tests/common/mod.rs"]
mod datagrams;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../flow-tables/tests/openvswitch/flows.rs"]
mod flows;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../flow-tables/tests/openvswitch/frames.rs"]
mod frames;
mod ovn;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../flow-tables/tests/openvswitch/peer.rs"]
mod peer;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use conntrack::{Packet, Tuple};
use datagrams as common;
use datagrams::{ACK, Ends, FIN, Random, SYN, Tcp, below, echo, of, udp, unreachable};
use flow::{Controller, Field, Flow, Key, Learn};
use flow_tables::{Change, Connection, HeaderWindow, Limits, Outcome, Surroundings, Tables, Track};
use pipeline::{Connections, PortId};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// States are written into the DSCP. Ports 3 and 4 get copies of frames by mark, label and translation.
const FLOWS: &[&str] = &[
    "table=0,priority=10,ip actions=ct(table=1,zone=5,nat)",
    "table=0,priority=10,ipv6 actions=ct(table=1,zone=5,nat)",
    "table=1,priority=9,ip,ct_state=+trk+inv actions=mod_nw_tos:24,resubmit(,3)",
    "table=1,priority=9,ip,ct_state=+trk+new-rel-inv actions=mod_nw_tos:4,resubmit(,2)",
    "table=1,priority=9,ip,ct_state=+trk+est-rpl-inv actions=mod_nw_tos:8,resubmit(,3)",
    "table=1,priority=9,ip,ct_state=+trk+est+rpl-inv actions=mod_nw_tos:12,resubmit(,3)",
    "table=1,priority=9,ip,ct_state=+trk+rel-rpl-inv actions=mod_nw_tos:16,resubmit(,3)",
    "table=1,priority=9,ip,ct_state=+trk+rel+rpl-inv actions=mod_nw_tos:20,resubmit(,3)",
    "table=1,priority=9,ipv6,ct_state=+trk+inv actions=mod_nw_tos:24,resubmit(,3)",
    "table=1,priority=9,ipv6,ct_state=+trk+new-rel-inv actions=mod_nw_tos:4,resubmit(,2)",
    "table=1,priority=9,ipv6,ct_state=+trk+est-rpl-inv actions=mod_nw_tos:8,resubmit(,3)",
    "table=1,priority=9,ipv6,ct_state=+trk+est+rpl-inv actions=mod_nw_tos:12,resubmit(,3)",
    "table=1,priority=9,ipv6,ct_state=+trk+rel-rpl-inv actions=mod_nw_tos:16,resubmit(,3)",
    "table=1,priority=9,ipv6,ct_state=+trk+rel+rpl-inv actions=mod_nw_tos:20,resubmit(,3)",
    "table=2,priority=9,ip,nw_src=10.0.0.2 actions=ct(commit,zone=5,nat(src=10.0.2.9),exec(set_field:0x7->ct_mark)),resubmit(,3)",
    "table=2,priority=9,ip,nw_dst=10.0.2.8 actions=ct(commit,zone=5,nat(dst=10.0.1.1),exec(set_field:0x70000000000000001->ct_label)),resubmit(,3)",
    "table=2,priority=9,ipv6,ipv6_src=fd00::2 actions=ct(commit,zone=5,nat(src=fd02::9)),resubmit(,3)",
    "table=2,priority=1,ip actions=ct(commit,zone=5,exec(set_field:0x8->ct_mark)),resubmit(,3)",
    "table=2,priority=1,ipv6 actions=ct(commit,zone=5),resubmit(,3)",
    "table=3,priority=9,ct_mark=0x7 actions=output:3,resubmit(,4)",
    "table=3,priority=9,ct_label=0x70000000000000001 actions=output:4,resubmit(,4)",
    "table=3,priority=8,ct_state=+dnat actions=output:3,output:4,resubmit(,4)",
    "table=3,priority=1 actions=resubmit(,4)",
    "table=4,in_port=1 actions=output:2",
    "table=4,in_port=2 actions=output:1",
];

/// Open vSwitch's dummy ports drop what comes while 100 frames wait.
const BURST: usize = 60;

struct Around<'a> {
    connections: &'a Connections,
    port: u16,
    ports: &'a [u16],
}

impl Surroundings for Around<'_> {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        self.ports
    }

    fn is_live(&self, port: u16) -> bool {
        self.ports().contains(&port)
    }

    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection {
        self.connections.track(Some(PortId(self.port)), track, window, Duration::ZERO)
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

/// What the sender of a step sends.
#[derive(Clone, Debug)]
enum Step {
    Udp,
    Query,
    Answer,
    Segment(Tcp),
    /// An error about what has arrived last.
    Error,
}

/// Two hosts, and the steps with their senders: 0 is the host that begins.
struct Conversation {
    ends: Ends,
    steps: Vec<(usize, Step)>,
    next: usize,
    /// What has arrived last at each host.
    arrived: [Option<Vec<u8>>; 2],
}

fn steps(random: &mut Random) -> Vec<(usize, Step)> {
    let segment = |flags, sequence, acknowledgement, payload: usize| {
        let mut segment = Tcp::new(flags, sequence, acknowledgement);
        (segment.window, segment.payload) = (8000, vec![b'x'; payload]);
        Step::Segment(segment)
    };
    match below(random, 4) {
        0 => (0..8).map(|at| (if at == 0 { 0 } else { below(random, 2) }, Step::Udp)).collect(),
        1 => vec![
            (0, Step::Udp),
            (0, Step::Udp),
            (1, Step::Error),
            (1, Step::Udp),
            (0, Step::Error),
            (0, Step::Udp),
        ],
        2 => vec![(0, Step::Query), (1, Step::Answer), (0, Step::Query), (1, Step::Error), (1, Step::Answer)],
        _ => vec![
            (0, segment(SYN, 99, 0, 0)),
            (1, segment(SYN | ACK, 499, 100, 0)),
            (0, segment(ACK, 100, 500, 0)),
            (0, segment(ACK, 100, 500, 300)),
            (1, segment(ACK, 500, 400, 0)),
            (1, Step::Error),
            (1, segment(ACK, 500, 400, 900)),
            (0, segment(ACK, 400, 1400, 0)),
            (0, segment(FIN | ACK, 400, 1400, 0)),
            (1, segment(ACK, 1400, 401, 0)),
            (1, segment(FIN | ACK, 1400, 401, 0)),
            (0, segment(ACK, 401, 1401, 0)),
        ],
    }
}

fn back(tuple: &Tuple) -> Ends {
    let ports = [tuple.destination.port, tuple.source.port];
    Ends { from: tuple.destination.address, to: tuple.source.address, ports }
}

impl Conversation {
    fn new(random: &mut Random, number: u16) -> Conversation {
        const PAIRS: [(&str, &str); 5] = [
            ("10.0.0.1", "10.0.1.1"),
            ("10.0.0.2", "10.0.1.1"),
            ("10.0.0.1", "10.0.2.8"),
            ("fd00::1", "fd01::1"),
            ("fd00::2", "fd01::1"),
        ];
        let (from, to) = of(random, &PAIRS);
        let ends = Ends::new(from, to, [2000 + number, 80]);
        Conversation { ends, steps: steps(random), next: 0, arrived: [None, None] }
    }

    /// The datagram of the next step, if this host is to send it.
    fn take(&mut self, host: usize) -> Option<Vec<u8>> {
        let (sender, step) = self.steps.get(self.next)?;
        if *sender != host {
            return None;
        }
        self.next += 1;
        let arrived = self.arrived[host].as_deref();
        let answered =
            arrived.and_then(|arrived| Packet::read(arrived).ok()).map(|packet| back(&packet.tuple));
        let ends = if host == 0 { self.ends } else { answered? };
        Some(match step {
            Step::Udp => udp(ends, b"hello"),
            Step::Query | Step::Answer => echo(ends, matches!(step, Step::Answer), self.ends.ports[0]),
            Step::Segment(segment) => segment.datagram(ends),
            // Open vSwitch leaves the checksum of a quoted and translated IPv6 datagram as it is. Linux updates it.
            Step::Error if self.ends.from == IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2]) => return None,
            Step::Error => unreachable(answered?, arrived?, 500),
        })
    }
}

fn framed(datagram: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
    frame.extend(datagram);
    frame
}

/// What each port sends of these frames.
fn expected(tables: &Tables, connections: &Connections, input: u16, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let mut sent = vec![Vec::new(); 4];
    let mut outcome = Outcome::default();
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, input.into());
    for frame in frames {
        let window = &frame[..frame.len().min(flow::WINDOW_BYTES)];
        let mut around = Around { connections, port: input, ports: &[1, 2, 3, 4] };
        tables.execute(window, frame.len(), &metadata, &mut around, &mut outcome);
        for delivery in &outcome.deliveries {
            let mut bytes = outcome.header(&delivery.header).to_vec();
            bytes.extend(&frame[window.len()..]);
            sent[usize::from(delivery.port) - 1].push(bytes);
        }
    }
    sent
}

/// The frames that one of both sends by a port, and the other does not. Open vSwitch tracks the frames of a burst by
/// their flows, and not in their order.
fn differences(ours: &[Vec<Vec<u8>>], theirs: &[Vec<Vec<u8>>]) -> Vec<String> {
    let without = |all: &[Vec<u8>], others: &[Vec<u8>]| {
        let mut others = others.to_vec();
        let mut left = all.to_vec();
        left.retain(|frame| match others.iter().position(|other| other == frame) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        });
        left.iter().map(|frame| hex(frame)).collect::<Vec<_>>()
    };
    (1..)
        .zip(ours.iter().zip(theirs))
        .map(|(port, (ours, theirs))| (port, without(ours, theirs), without(theirs, ours)))
        .filter(|(_, ours, theirs)| !ours.is_empty() || !theirs.is_empty())
        .map(|(port, ours, theirs)| {
            format!("port {port}\n  only here {ours:#?}\n  only in Open vSwitch {theirs:#?}")
        })
        .collect()
}

fn tos(frame: &[u8]) -> u8 {
    if frame[12] == 8 { frame[15] } else { frame[14] << 4 | frame[15] >> 4 }
}

#[test]
fn frames_of_conversations_leave_as_openvswitch_sends_them() {
    let mut random = Random(3);
    let mut peer = peer::Peer::without_groups(4);
    peer.set_flows(&FLOWS.iter().map(|flow| (*flow).to_owned()).collect::<Vec<_>>());
    let mut tables = Tables::new(1, 7, Limits::default());
    for flow in FLOWS {
        tables.change(Change::Add(Flow::parse(flow).unwrap()), 0).unwrap();
    }
    let connections = Connections::new(8);
    let mut all: Vec<_> = (0..400).map(|number| Conversation::new(&mut random, number)).collect();
    let (mut frames, mut wrong, mut by_tos) = (0, Vec::new(), BTreeMap::new());
    while all.iter().any(|one| one.next < one.steps.len()) && wrong.len() < 5 {
        for (host, input) in [(0, 1), (1, 2)] {
            let (mut senders, mut burst) = (Vec::new(), Vec::new());
            for one in &mut all {
                if burst.len() < BURST
                    && below(&mut random, 3) > 0
                    && let Some(datagram) = one.take(host)
                {
                    burst.push(framed(&datagram));
                    senders.push(one);
                }
            }
            let ours = expected(&tables, &connections, input, &burst);
            let theirs = peer.send(input, &burst);
            frames += burst.len();
            let left = &ours[1 - host];
            assert_eq!(left.len(), burst.len(), "each frame leaves once");
            for (sender, frame) in senders.into_iter().zip(left) {
                *by_tos.entry(tos(frame)).or_insert(0) += 1;
                let is_error = matches!(tos(frame), 16 | 20);
                if !is_error {
                    sender.arrived[1 - host] = Some(frame[14..].to_vec());
                }
            }
            wrong.extend(differences(&ours, &theirs));
        }
    }
    println!("{frames} frames, by TOS {by_tos:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(frames > 1500, "{frames}");
}
