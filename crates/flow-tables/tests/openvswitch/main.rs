//! Random tables and random frames: the frames that come out, byte by byte, and the counters of flows are those of Open
//! vSwitch's user-space datapath.
mod chassis;
#[path = "../../../flow/tests/common/mod.rs"]
mod common;
mod counters;
mod flows;
mod frames;
mod meters;
mod ovn;
mod peer;
#[path = "../ports/mod.rs"]
mod ports;
mod trace;

use std::fmt::Write as _;

use common::Random;
use flow::{Field, Flow, Key};
use flow_tables::{Change, Limits, Outcome, Tables};
use ports::Ports;

const PORTS: u16 = 4;
const FRAMES: usize = 104;

/// Sets of random tables; `TAUTLINE_FLOW_TABLES` asks for another number.
fn sets() -> usize {
    std::env::var("TAUTLINE_FLOW_TABLES").map_or(200, |sets| sets.parse().unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What each port sends of these frames, in their order, and counts of flows.
fn expected(tables: &Tables, input: u16, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let mut sent = vec![Vec::new(); usize::from(PORTS)];
    let mut outcome = Outcome::default();
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, input.into());
    for frame in frames {
        let window = &frame[..frame.len().min(flow::WINDOW_BYTES)];
        tables.execute(window, frame.len(), &metadata, &mut Ports, &mut outcome);
        for delivery in outcome.deliveries.iter().filter(|delivery| (1..=PORTS).contains(&delivery.port)) {
            let mut bytes = outcome.header(&delivery.header).to_vec();
            bytes.extend(&frame[window.len()..]);
            assert_eq!(bytes.len(), delivery.header.frame_bytes);
            bytes.truncate(delivery.cut.map_or(usize::MAX, |cut| cut as usize));
            sent[usize::from(delivery.port) - 1].push(bytes);
        }
        outcome.hits.iter().for_each(|entry| entry.count(frame.len(), 0));
    }
    sent
}

fn tables_of(flows: &[String]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    flows::groups().into_iter().for_each(|group| tables.set_group(group).unwrap());
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

/// The frame that makes the difference, alone, for an error's text.
fn difference(peer: &mut peer::Peer, tables: &Tables, input: u16, frames: &[Vec<u8>]) -> Option<String> {
    let shown = |sent: &[Vec<Vec<u8>>]| -> Vec<String> {
        let ports = sent.iter().zip(1..);
        ports.flat_map(|(all, port)| all.iter().map(move |one| format!("{port}: {}", hex(one)))).collect()
    };
    frames.iter().find_map(|frame| {
        let wanted = expected(tables, input, std::slice::from_ref(frame));
        let sent = peer.send(input, std::slice::from_ref(frame));
        (wanted != sent).then(|| {
            let mut metadata = Key::ZERO;
            metadata.set(Field::InPortOxm, input.into());
            let trace =
                peer.trace(input, &hex(frame)) + &tables.trace(frame, frame.len(), &metadata, &mut Ports);
            format!(
                "frame {}\nhere: {:#?}\nOpen vSwitch: {:#?}\n{trace}",
                hex(frame),
                shown(&wanted),
                shown(&sent)
            )
        })
    })
}

/// The flows that a frame passes here and in Open vSwitch, if they are not the same.
fn other_flows(peer: &peer::Peer, tables: &Tables, input: u16, frame: &[u8]) -> Option<String> {
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, input.into());
    let window = &frame[..frame.len().min(flow::WINDOW_BYTES)];
    let ours = tables.trace(window, frame.len(), &metadata, &mut Ports);
    let theirs = peer.trace(input, &hex(frame));
    (trace::passed(&ours) != trace::passed(&theirs))
        .then(|| format!("frame {}\n{ours}\n{theirs}", hex(frame)))
}

fn run(seed: u64, tables: usize) -> usize {
    let mut random = Random(seed);
    let mut peer = peer::Peer::start(PORTS);
    let (mut cases, mut wrong) = (0, Vec::new());
    for at in 0..tables {
        let lengths = at == 0;
        let flows = if lengths { flows::lengths() } else { flows::flows(&mut random) };
        let tables = tables_of(&flows);
        peer.set_flows(&flows);
        for input in 1..=PORTS {
            let frames: Vec<_> =
                (0..FRAMES / usize::from(PORTS)).map(|_| frames::frame(&mut random)).collect();
            let wanted = expected(&tables, input, &frames);
            let sent = peer.send(input, &frames);
            if sent != wanted {
                wrong
                    .push(difference(&mut peer, &tables, input, &frames).unwrap_or_else(|| flows.join("\n")));
            }
            cases += frames.len();
            // Open vSwitch follows both outcomes of a check of the length.
            if !lengths {
                wrong.extend(other_flows(&peer, &tables, input, &frames[0]));
            }
        }
        let counted = peer.counters();
        for entry in (0..=u8::MAX).flat_map(|number| tables.entries(number)) {
            let text = entry.flow.to_string();
            let theirs =
                counted.iter().find(|(flow, ..)| *flow == text).map(|(_, packets, bytes)| (*packets, *bytes));
            if !lengths && theirs != Some(entry.counters().get()) {
                wrong.push(format!(
                    "{text}: counted {:?}, by Open vSwitch {theirs:?}",
                    entry.counters().get()
                ));
            }
        }
        if wrong.len() >= 8 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n\n"));
    cases
}

#[test]
fn bytes_out_and_counters_are_those_of_openvswitch() {
    assert_eq!(run(21, sets()), sets() * FRAMES);
}
