//! Fragments that wait for the rest of their datagrams.
mod common;

use std::time::Duration;

use common::{Ends, Random, below, udp};
use conntrack::{
    BLOCK, FragmentFrame, FragmentLimits, Fragments, Held, MAX_FRAGMENTS, Packet, Untracked, Whole,
};
use proptest::prelude::*;

const LIMITS: FragmentLimits = FragmentLimits {
    ports: 3,
    bytes: 400 * BLOCK as u32,
    bytes_per_port: 150 * BLOCK as u32,
    datagrams: 30,
    datagrams_per_port: 10,
    time: Duration::from_secs(30),
};

/// Bytes between the frames' beginning and the network header.
const ETHERNET: usize = 14;

fn ends(version: u8) -> Ends {
    match version {
        4 => Ends::new("10.0.0.1", "10.0.0.2", [1000, 80]),
        _ => Ends::new("fd00::1", "fd00::2", [1000, 80]),
    }
}

fn framed(datagram: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
    frame.extend(datagram);
    frame
}

/// The fragment with these bytes of a datagram's payload.
fn fragment(datagram: &[u8], id: u16, start: usize, end: usize, more: bool) -> Vec<u8> {
    common::fragment(datagram, id, start..end, more)
}

struct Table {
    fragments: Fragments,
}

impl Table {
    fn new() -> Table {
        Table { fragments: Fragments::new(LIMITS) }
    }

    fn hold(&mut self, port: u16, frame: &[u8], seconds: u64) -> Held {
        let head = &frame[..frame.len().min(64)];
        let rest = |at: usize, into: &mut [u8]| {
            let bytes = &frame[at..(at + into.len()).min(frame.len())];
            into[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        };
        let fragment =
            FragmentFrame { port, tags: 0, head, network: ETHERNET, frame_bytes: frame.len(), rest: &rest };
        self.fragments.hold(&fragment, Duration::from_secs(seconds))
    }

    fn take(&mut self, whole: Whole) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(bytes) = self.fragments.next_bytes(whole) {
            let mut frame = Vec::new();
            self.fragments.take(whole, |part| frame.extend(part));
            assert_eq!(frame.len(), bytes);
            frames.push(frame);
        }
        frames
    }
}

fn complete(held: Held) -> Whole {
    match held {
        Held::Complete(whole) => whole,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the order: the last one that comes completes the datagram, and the frames leave as they came.
    #[test]
    fn fragments_leave_as_they_came_when_their_datagram_is_complete(
        version in prop_oneof![Just(4_u8), Just(6)], cuts in proptest::collection::btree_set(1..200_usize, 1..20), seed: u64
    ) {
        let datagram = udp(ends(version), &vec![7; 1600 + (seed % 8) as usize]);
        let header = if version == 4 { 20 } else { 40 };
        let payload = datagram.len() - header;
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut * 8).collect();
        places.insert(0, 0);
        places.push(payload);
        let frames: Vec<_> = places
            .windows(2)
            .map(|part| framed(&fragment(&datagram, 9, part[0], part[1], part[1] != payload)))
            .collect();
        let mut random = Random(seed);
        let mut order: Vec<usize> = (0..frames.len()).collect();
        (1..order.len()).for_each(|at| order.swap(at, below(&mut random, at + 1)));
        let mut table = Table::new();
        for at in &order[1..] {
            prop_assert_eq!(table.hold(1, &frames[*at], 0), Held::Waits);
            prop_assert_eq!(table.hold(1, &frames[*at], 0), Held::Refused, "twice");
        }
        prop_assert_eq!(table.hold(2, &frames[order[0]], 0), Held::Waits, "of another port");
        let whole = complete(table.hold(1, &frames[order[0]], 0));
        prop_assert_eq!(whole.payload, payload);
        let first = Packet::read_whole(&frames[0][ETHERNET..], whole.payload).unwrap();
        let read = Packet::read(&datagram).unwrap();
        prop_assert_eq!((first.tuple, first.later), (read.tuple, payload - places[1]));
        prop_assert_eq!(Packet::read(&frames[0][ETHERNET..]).err(), Some(Untracked::Fragment));
        prop_assert_eq!(table.take(whole), frames);
        prop_assert_eq!((table.fragments.held_by(1), table.fragments.dropped(1)), (0, 0));
    }

    /// Random bytes and random fragments never panic, and a port never holds more than its share.
    #[test]
    fn hostile_fragments_stay_within_their_ports_share(seed: u64) {
        let (mut random, mut table) = (Random(seed), Table::new());
        let datagrams = [4, 6].map(|version| udp(ends(version), &[7; 9000]));
        for step in 0..600 {
            let datagram = &datagrams[below(&mut random, 2)];
            let start = below(&mut random, 1100) * 8;
            let end = (start + below(&mut random, 1400)).min(datagram.len() - 40);
            let more = below(&mut random, 4) > 0;
            let end = if more { start + (end.max(start) - start) / 8 * 8 } else { end.max(start) };
            let mut frame = framed(&fragment(datagram, below(&mut random, 40) as u16, start, end, more));
            if below(&mut random, 3) == 0 {
                let at = below(&mut random, frame.len().min(80));
                frame[at] = random.next() as u8;
            }
            if below(&mut random, 8) == 0 {
                frame.truncate(ETHERNET + below(&mut random, frame.len() - ETHERNET));
            }
            let port = below(&mut random, 4) as u16;
            if let Held::Complete(whole) = table.hold(port, &frame, step / 20) {
                table.take(whole);
            }
            for port in 0..3 {
                prop_assert!(table.fragments.held_by(port) <= LIMITS.bytes_per_port as usize);
            }
        }
        // All memory comes back: time ends what waits.
        let frame = framed(&fragment(&udp(ends(4), b"12345678"), 1, 0, 8, true));
        for _ in 0..8 {
            table.hold(0, &frame, 1000);
        }
        prop_assert_eq!((table.fragments.held_by(1), table.fragments.held_by(2)), (0, 0));
        prop_assert_eq!(table.fragments.held_by(0), BLOCK);
    }
}

#[test]
fn overlapping_fragments_end_their_datagram() {
    let datagram = udp(ends(4), &[7; 1000]);
    let piece = |start, end, more| framed(&fragment(&datagram, 5, start, end, more));
    for (contradiction, why) in [
        (piece(792, 1008, false), "overlaps the one before"),
        (piece(400, 808, true), "overlaps the one behind"),
        (piece(0, 1000, true), "covers the others"),
        (piece(1600, 1608, true), "behind the end"),
    ] {
        let mut table = Table::new();
        assert_eq!(table.hold(0, &piece(0, 80, true), 0), Held::Waits);
        assert_eq!(table.hold(0, &piece(800, 1008, false), 0), Held::Waits);
        assert_eq!(table.hold(0, &contradiction, 0), Held::Refused, "{why}");
        assert_eq!((table.fragments.dropped(0), table.fragments.held_by(0)), (2, 0), "{why}");
        assert_eq!(table.hold(0, &piece(80, 800, true), 0), Held::Waits, "of a datagram that ended");
    }
    let mut table = Table::new();
    assert_eq!(table.hold(0, &piece(0, 80, true), 0), Held::Waits);
    assert_eq!(table.hold(0, &piece(8, 72, true), 0), Held::Refused, "came before");
    assert_eq!(table.fragments.dropped(0), 0);
    assert_eq!(complete(table.hold(0, &piece(80, 1008, false), 0)).payload, 1008);
    let mut table = Table::new();
    assert_eq!(table.hold(0, &piece(0, 84, true), 0), Held::Refused, "not a multiple of 8");
    assert_eq!(table.hold(0, &piece(8, 8, true), 0), Held::Refused, "no payload");
}

/// One port sends first fragments without end; the datagrams of others are completed.
#[test]
fn fragments_without_end_take_nothing_from_other_ports() {
    let mut table = Table::new();
    let datagram = udp(ends(4), &[7; 2000]);
    let piece = |id, start, end, more| framed(&fragment(&datagram, id, start, end, more));
    assert_eq!(table.hold(1, &piece(1, 0, 1000, true), 0), Held::Waits);
    for id in 0..5000 {
        assert_eq!(table.hold(0, &piece(id, 0, 1400, true), 0), Held::Waits);
        assert!(table.fragments.held_by(0) <= LIMITS.bytes_per_port as usize);
    }
    // One datagram in very many pieces.
    let mut table_of_pieces = Table::new();
    let held: Vec<_> = (0..=MAX_FRAGMENTS)
        .map(|at| table_of_pieces.hold(0, &piece(7, 16 * usize::from(at), 16 * usize::from(at) + 8, true), 0))
        .collect();
    assert!(held[..usize::from(MAX_FRAGMENTS)].iter().all(|held| *held == Held::Waits));
    assert_eq!((held.last(), table_of_pieces.fragments.held_by(0)), (Some(&Held::Refused), 0));
    let whole = complete(table.hold(1, &piece(1, 1000, 2008, false), 1));
    assert_eq!(table.take(whole).len(), 2);
    assert!(table.fragments.dropped(0) > 4900 && table.fragments.dropped(1) == 0);
}

#[test]
fn what_waits_too_long_is_given_up() {
    let mut table = Table::new();
    let datagram = udp(ends(6), &[7; 2000]);
    let piece = |start, end, more| framed(&fragment(&datagram, 1, start, end, more));
    assert_eq!(table.hold(0, &piece(0, 1000, true), 0), Held::Waits);
    assert_eq!(table.hold(0, &piece(1000, 2008, false), 30), Held::Waits, "the first part is gone");
    assert_eq!(table.fragments.dropped(0), 1);
    let whole = complete(table.hold(0, &piece(0, 1000, true), 59));
    // A complete datagram that is not taken ends like others.
    assert_eq!(table.hold(0, &piece(0, 1000, true), 60), Held::Waits);
    assert_eq!((table.fragments.next_bytes(whole), table.fragments.dropped(0)), (None, 2));
}
