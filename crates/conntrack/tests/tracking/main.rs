//! Connections: states, translation, budgets, time.
mod associations;
#[path = "../common/mod.rs"]
mod common;
mod model;

use std::net::IpAddr;
use std::time::Duration;

use common::{ACK, Ends, FIN, SYN, Tcp, echo, udp, unreachable};
use conntrack::{
    Choice, Limits, Mapping, Mark, Packet, Refusal, Request, Seed, Selection, Settings, Shard, Side, State,
    TcpRules, Timeouts, Tracker, Translate, TupleSelection, Untracked, Verdict, Written, protocol,
    translate_icmp,
};
use proptest::prelude::*;

const LIMITS: Limits = Limits { connections: 10_000, ports: 4, per_port: 100, per_zone: u32::MAX };

fn settings(limits: Limits) -> Settings {
    let (tcp, timeouts) = (TcpRules::default(), Timeouts::default());
    Settings { limits, tcp, timeouts, shard: Shard::ALL, seed: Seed([1, 2]) }
}

fn tracker(limits: Limits) -> Tracker {
    Tracker::new(settings(limits), Duration::ZERO)
}

fn track(tracker: &mut Tracker, datagram: &[u8], request: &Request<'_>) -> Verdict {
    track_at(tracker, datagram, request, 0)
}

fn track_at(tracker: &mut Tracker, datagram: &[u8], request: &Request<'_>, seconds: u64) -> Verdict {
    tracker.track(&Packet::read(datagram).unwrap(), request, Duration::from_secs(seconds))
}

fn commit() -> Request<'static> {
    Request { commit: Some(Written::default()), translate: Translate::Existing, ..Request::default() }
}

fn ends() -> Ends {
    Ends::new("10.0.0.1", "10.0.0.2", [1000, 80])
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const NEW: State = State::NEW;
const EST: State = State::ESTABLISHED;
const RPL: State = State::REPLY;
const REL: State = State::RELATED;
const TRK: State = State::TRACKED;

fn invalid() -> State {
    TRK | State::INVALID
}

#[test]
fn a_connection_is_new_until_it_is_committed_and_answered() {
    let mut tracker = tracker(LIMITS);
    let look = Request::default();
    for _ in 0..2 {
        assert_eq!(track(&mut tracker, &udp(ends(), b"a"), &look).state, TRK | NEW);
    }
    assert_eq!(tracker.counters().kept, 0);
    assert_eq!(track(&mut tracker, &udp(ends(), b"a"), &commit()).state, TRK | NEW);
    assert_eq!(track(&mut tracker, &udp(ends(), b"a"), &look).state, TRK | NEW);
    assert_eq!(track(&mut tracker, &udp(ends().back(), b"b"), &look).state, TRK | EST | RPL);
    assert_eq!(track(&mut tracker, &udp(ends(), b"a"), &look).state, TRK | EST);
    let other_zone = Request { zone: 5, ..look };
    assert_eq!(track(&mut tracker, &udp(ends().back(), b"b"), &other_zone).state, TRK | NEW);
    let about = unreachable(ends().back(), &udp(ends(), b"a"), 28);
    let verdict = track(&mut tracker, &about, &look);
    assert_eq!(verdict.state, TRK | REL | RPL);
    assert_eq!(verdict.original, Some(Packet::read(&udp(ends(), b"a")).unwrap().tuple));
    assert_eq!(track(&mut tracker, &about, &other_zone).state, invalid());
    tracker.flush(&[Selection::of_zone(Some(0))]);
    assert_eq!(track(&mut tracker, &about, &look).state, invalid());
}

/// Each property of a selection counts, and all properties of one direction mean that of the answers too.
#[test]
fn a_selection_ends_the_connections_that_have_all_of_it() {
    let of = |ends: Ends| Packet::read(&udp(ends, b"a")).unwrap().tuple;
    let (wanted, other) = (ends(), Ends::new("10.0.0.3", "10.0.0.4", [1, 2]));
    let tuple = of(wanted);
    let whole = TupleSelection {
        source: Some(tuple.source.address),
        destination: Some(tuple.destination.address),
        source_port: Some(tuple.source.port),
        destination_port: Some((tuple.destination.port, u16::MAX)),
    };
    let back = TupleSelection {
        source: whole.destination,
        destination: whole.source,
        source_port: Some(tuple.destination.port),
        destination_port: Some((tuple.source.port, u16::MAX)),
    };
    let none = Selection::default();
    let one = |original| Selection { original, ..none };
    let part = TupleSelection::default();
    let of_udp = Some(protocol::UDP);
    let selections = [
        one(whole),
        Selection { protocol: of_udp, ..one(whole) },
        Selection { protocol: of_udp, ..one(back) },
        Selection { reply: back, ..none },
        one(TupleSelection { source: whole.source, ..part }),
        one(TupleSelection { destination: whole.destination, ..part }),
        one(TupleSelection { source_port: whole.source_port, ..part }),
        one(TupleSelection { destination_port: Some((tuple.destination.port, 0xff)), ..part }),
        Selection { mark: Some((0x15, 0xf)), ..none },
        Selection { label: Some((7, u128::MAX)), ..none },
    ];
    let written =
        Written { value: Mark { mark: 5, label: 7 }, mask: Mark { mark: u32::MAX, label: u128::MAX } };
    for which in selections {
        let mut tracker = tracker(LIMITS);
        let request = Request { commit: Some(written), ..Request::default() };
        track(&mut tracker, &udp(wanted, b"a"), &request);
        track(&mut tracker, &udp(other, b"a"), &commit());
        tracker.flush(&[which]);
        assert_eq!(tracker.counters().kept, 1, "{which:?}");
        let rest = track(&mut tracker, &udp(other.back(), b"b"), &Request::default());
        assert_eq!(rest.state, TRK | EST | RPL, "{which:?}");
    }
    // Without the protocol, only the direction of the first frame is compared.
    for which in
        [one(back), Selection { mark: Some((6, 0xf)), ..none }, Selection { protocol: Some(6), ..none }]
    {
        let mut tracker = tracker(LIMITS);
        track(&mut tracker, &udp(wanted, b"a"), &commit());
        tracker.flush(&[which]);
        assert_eq!(tracker.counters().kept, 1, "{which:?}");
    }
    let of_type = TupleSelection { destination_port: TupleSelection::icmp(Some(8), None), ..part };
    for (which, kept) in
        [(of_type, 0), (TupleSelection { destination_port: TupleSelection::icmp(None, Some(1)), ..part }, 1)]
    {
        let mut tracker = tracker(LIMITS);
        track(&mut tracker, &echo(wanted, false, 9), &commit());
        tracker.flush(&[one(which)]);
        assert_eq!(tracker.counters().kept, kept, "{which:?}");
    }
}

/// Zones without connections are emptied without end, as a controller can ask. With a look at all connections each time, the
/// test does not end within its time limit.
#[test]
fn to_empty_an_empty_zone_costs_no_look_at_the_connections_of_others() {
    let mut tracker = tracker(Limits { per_port: 10_000, ..LIMITS });
    for port in 0..5000 {
        let ends = Ends::new("10.0.0.1", "10.0.0.2", [1000 + port, 80]);
        assert_eq!(track(&mut tracker, &udp(ends, b"a"), &commit()).state, TRK | NEW);
    }
    (0..1_000_000).for_each(|_| tracker.flush(&[7, 8].map(|zone| Selection::of_zone(Some(zone)))));
    assert_eq!(tracker.counters().kept, 5000);
    tracker.flush(&[Selection::of_zone(None)]);
    (0..1_000_000).for_each(|_| tracker.flush(&[Selection::of_zone(None)]));
    assert_eq!(tracker.counters().kept, 0);
}

#[test]
fn queries_are_answered_and_other_messages_begin_nothing() {
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut tracker = tracker(LIMITS);
        let ends = Ends::new(from, to, [0, 0]);
        let ask = |tracker: &mut Tracker, datagram: &[u8]| track(tracker, datagram, &commit()).state;
        assert_eq!(ask(&mut tracker, &echo(ends.back(), true, 7)), invalid());
        assert_eq!(ask(&mut tracker, &echo(ends, false, 7)), TRK | NEW);
        assert_eq!(ask(&mut tracker, &echo(ends.back(), true, 8)), invalid());
        assert_eq!(ask(&mut tracker, &echo(ends.back(), true, 7)), TRK | EST | RPL);
        let kind = if ends.from.is_ipv4() { 9 } else { 135 };
        let other = common::icmp(ends, kind, 0, [0; 4], &[0; 16]);
        assert_eq!(Packet::read(&other).err(), Some(Untracked::NoQuery));
    }
}

fn handshake(tracker: &mut Tracker, ends: Ends, request: &Request<'_>) {
    for (segment, ends) in [
        (Tcp::new(SYN, 100, 0), ends),
        (Tcp::new(SYN | ACK, 500, 101), ends.back()),
        (Tcp::new(ACK, 101, 501), ends),
    ] {
        assert!(!track(tracker, &segment.datagram(ends), request).state.has(State::INVALID));
    }
}

#[test]
fn segments_outside_of_the_windows_are_invalid() {
    for rules in [TcpRules { loose: true, liberal: false }, TcpRules { loose: false, liberal: false }] {
        let mut tracker = Tracker::new(Settings { tcp: rules, ..settings(LIMITS) }, Duration::ZERO);
        handshake(&mut tracker, ends(), &commit());
        let mut ask =
            |segment: Tcp, ends: Ends| track(&mut tracker, &segment.datagram(ends), &commit()).state;
        assert_eq!(ask(Tcp::new(ACK, 101, 501), ends()), TRK | EST);
        assert_eq!(ask(Tcp::new(ACK, 101, 900_000), ends()), invalid(), "bytes that nobody has sent");
        assert_eq!(ask(Tcp::new(ACK, 500_000, 501), ends()), invalid(), "beyond the window");
        assert_eq!(ask(Tcp::new(ACK | FIN, 501, 101), ends().back()), TRK | EST | RPL);
        assert_eq!(ask(Tcp::new(ACK | SYN | FIN, 501, 101), ends().back()), invalid(), "flags");
        let found = Ends { ports: [5, 6], ..ends() };
        let expected = if rules.loose { TRK | NEW } else { invalid() };
        assert_eq!(ask(Tcp::new(ACK, 7, 9), found), expected);
    }
    let liberal = TcpRules { loose: false, liberal: true };
    let mut tracker = Tracker::new(Settings { tcp: liberal, ..settings(LIMITS) }, Duration::ZERO);
    handshake(&mut tracker, ends(), &commit());
    let beyond = Tcp::new(ACK, 500_000, 501).datagram(ends());
    assert_eq!(track(&mut tracker, &beyond, &commit()).state, TRK | EST);
}

#[test]
fn a_frame_that_was_tracked_before_changes_no_state() {
    let mut tracker = tracker(LIMITS);
    handshake(&mut tracker, ends(), &commit());
    let fin = Tcp::new(FIN | ACK, 101, 501).datagram(ends());
    track(&mut tracker, &fin, &commit());
    // A second look at the FIN would begin the last state, which keeps the connection for 30 s.
    let seen = Request { is_seen: true, ..commit() };
    assert_eq!(track(&mut tracker, &fin, &seen).state, TRK | EST);
    assert_eq!(track_at(&mut tracker, &fin, &seen, 100).state, TRK | EST);
}

#[test]
fn marks_and_labels_are_written_bit_by_bit() {
    let mut tracker = tracker(LIMITS);
    let write = |value, mask| Request {
        commit: Some(Written {
            value: Mark { mark: value, label: u128::from(value) << 64 },
            mask: Mark { mark: mask, label: u128::from(mask) << 64 },
        }),
        ..Request::default()
    };
    assert_eq!(track(&mut tracker, &udp(ends(), b""), &write(0xff, 0x0f)).mark.mark, 0x0f);
    let verdict = track(&mut tracker, &udp(ends().back(), b""), &write(0x00, 0x01));
    assert_eq!((verdict.mark.mark, verdict.mark.label), (0x0e, 0x0e << 64));
}

#[test]
fn force_makes_the_sender_of_an_answer_the_beginner() {
    let mut tracker = tracker(LIMITS);
    track(&mut tracker, &udp(ends(), b""), &commit());
    let force = Request { force: true, ..commit() };
    assert_eq!(track(&mut tracker, &udp(ends(), b""), &force).state, TRK | NEW);
    assert_eq!(track(&mut tracker, &udp(ends().back(), b""), &force).state, TRK | NEW);
    assert_eq!(track(&mut tracker, &udp(ends(), b""), &commit()).state, TRK | EST | RPL);
    assert_eq!(tracker.counters().kept, 1);
}

fn source(first: &str, last: &str, ports: Option<(u16, u16)>) -> Mapping {
    let addresses = Some((address(first), address(last)));
    Mapping { side: Side::Source, addresses, ports, choice: Choice::Keep, persistent: false }
}

#[test]
fn a_translated_connection_is_found_by_its_answers() {
    for (inside, outside, server) in
        [("10.0.0.1", "192.0.2.1", "198.51.100.1"), ("fd00::1", "fd01::1", "fd02::1")]
    {
        let mut tracker = tracker(LIMITS);
        let ends = Ends::new(inside, server, [1000, 80]);
        let mapping = source(outside, outside, None);
        let request = Request { translate: Translate::New(&mapping), ..commit() };
        let verdict = track(&mut tracker, &udp(ends, b""), &request);
        assert_eq!(verdict.state, TRK | NEW | State::SOURCE_TRANSLATED);
        let translation = verdict.translation.unwrap();
        assert_eq!(translation.to.source.address, address(outside));
        assert_eq!(translation.to.source.port, 1000);
        let left = Ends { from: address(outside), ..ends };
        let look = Request { translate: Translate::Existing, ..Request::default() };
        let verdict = track(&mut tracker, &udp(left.back(), b""), &look);
        assert_eq!(verdict.state, TRK | EST | RPL | State::DESTINATION_TRANSLATED);
        assert_eq!(verdict.translation.unwrap().to.destination.address, address(inside));
        // Without `nat`, nothing is translated.
        let verdict = track(&mut tracker, &udp(left.back(), b""), &Request::default());
        assert_eq!((verdict.state, verdict.translation), (TRK | EST | RPL, None));
        // The quoted datagram is the one that was sent, and its sums are right.
        let mut error = unreachable(left.back(), &udp(left, b""), 1000);
        let verdict = track(&mut tracker, &error, &look);
        assert_eq!(verdict.state, TRK | REL | RPL | State::DESTINATION_TRANSLATED);
        translate_icmp(&mut error, &verdict.translation.unwrap());
        let at = if ends.from.is_ipv4() { 20 } else { 40 };
        assert_eq!(error[at + 8..], udp(ends, b"")[..]);
        let protocol = if ends.from.is_ipv4() { 1 } else { 58 };
        assert_eq!(common::transport_sum(left.back(), protocol, &error[at..]), 0);
    }
}

/// Flow tables track a frame, translate it, and track it once more to write the mark.
#[test]
fn a_frame_that_was_translated_is_found_again() {
    let mut tracker = tracker(LIMITS);
    let mapping = source("192.0.2.1", "192.0.2.1", None);
    let ends = Ends::new("10.0.0.1", "198.51.100.1", [2000, 80]);
    track(&mut tracker, &udp(ends, b""), &Request { translate: Translate::New(&mapping), ..commit() });
    let left = Ends { from: address("192.0.2.1"), ..ends };
    let mark = Mark { mark: 7, label: 0 };
    let again =
        Request { commit: Some(Written { value: mark, mask: mark }), is_seen: true, ..Request::default() };
    let verdict = track(&mut tracker, &udp(left, b""), &again);
    assert_eq!((verdict.state, verdict.mark, tracker.counters().kept), (TRK | NEW, mark, 1));
}

#[test]
fn a_clash_of_translations_is_solved_by_another_port_or_refused() {
    let mut tracker = tracker(LIMITS);
    let mapping = source("192.0.2.1", "192.0.2.1", None);
    let request = Request { translate: Translate::New(&mapping), ..commit() };
    let mut seen = Vec::new();
    for client in 1..=50 {
        let ends = Ends::new(&format!("10.0.0.{client}"), "198.51.100.1", [2000, 80]);
        let left = track(&mut tracker, &udp(ends, b""), &request).translation.unwrap().to;
        assert!(!seen.contains(&left), "{left:?}");
        assert!(left.source.port >= 1024);
        seen.push(left);
    }
    assert_eq!(seen[0].source.port, 2000);
    // Without translation, an answer that belongs to another connection is refused.
    let clash = Ends::new("192.0.2.1", "198.51.100.1", [2000, 80]);
    let plain = Request { translate: Translate::No, ..commit() };
    let verdict = track(&mut tracker, &udp(clash, b""), &plain);
    assert_eq!((verdict.state, verdict.refusal), (invalid(), Some(Refusal::Taken)));
}

#[test]
fn no_port_takes_the_translations_or_the_places_of_another_one() {
    let mut tracker = tracker(Limits { per_port: 1000, ..LIMITS });
    let mapping = source("192.0.2.1", "192.0.2.1", Some((5000, 5099)));
    let request = |port| Request { port, translate: Translate::New(&mapping), ..commit() };
    let mut kept = [0; 3];
    for at in 0..600_u16 {
        for port in [0, 1] {
            let ends = Ends::new(&format!("10.0.{port}.1"), "198.51.100.1", [at + 1, 80]);
            let verdict = track(&mut tracker, &udp(ends, b""), &request(port));
            let is_kept = verdict.refusal.is_none();
            assert!(is_kept || verdict.refusal == Some(Refusal::Translation));
            kept[usize::from(port)] += u32::from(is_kept);
        }
    }
    let ends = Ends::new("10.0.2.1", "198.51.100.1", [1, 80]);
    assert_eq!(track(&mut tracker, &udp(ends, b""), &request(2)).refusal, None);
    assert!(kept[0] + kept[1] < 100 && kept[0] >= 30 && kept[1] >= 30, "{kept:?}");
}

#[test]
fn a_flood_evicts_nothing_of_a_neighbour() {
    let mut tracker = tracker(LIMITS);
    let neighbour = Ends::new("10.0.0.1", "10.0.0.2", [7, 7]);
    let own = Ends::new("10.0.9.1", "10.0.0.2", [7, 7]);
    track(&mut tracker, &udp(neighbour, b""), &commit());
    let flood = Request { port: 1, ..commit() };
    track(&mut tracker, &udp(own, b""), &flood);
    track(&mut tracker, &udp(own.back(), b""), &flood);
    for port in 0..10_000 {
        let ends = Ends { ports: [port, 9], ..own };
        let verdict = track(&mut tracker, &udp(ends, b""), &flood);
        assert_eq!((verdict.state, verdict.refusal), (TRK | NEW, None));
        assert!(tracker.held_by(1) <= LIMITS.per_port);
    }
    // The neighbour's connection is there, and so is the answered one of the port itself.
    assert_eq!(track(&mut tracker, &udp(neighbour.back(), b""), &Request::default()).state, TRK | EST | RPL);
    assert_eq!(track(&mut tracker, &udp(own, b""), &Request::default()).state, TRK | EST);
    let counters = tracker.counters();
    assert_eq!((counters.kept, counters.evicted), (101, 10_002 - 100 - 1));
    // A port without a number that the table knows keeps nothing.
    let verdict =
        track(&mut tracker, &udp(Ends { ports: [1, 1], ..own }, b""), &Request { port: 4, ..commit() });
    assert_eq!(verdict.refusal, Some(Refusal::Port));
}

#[test]
fn ports_that_take_all_they_can_leave_places_for_others() {
    let mut tracker = tracker(Limits { connections: 400, ports: 4, per_port: 400, per_zone: u32::MAX });
    for at in 0..1000 {
        for port in 0..3 {
            let ends = Ends::new(&format!("10.0.{port}.1"), "10.9.0.1", [at, 9]);
            let request = Request { port, ..commit() };
            track(&mut tracker, &udp(ends, b""), &request);
            track(&mut tracker, &udp(ends.back(), b""), &request);
        }
    }
    for port in 0..3 {
        assert!((90..=110).contains(&tracker.held_by(port)), "{}", tracker.held_by(port));
    }
    for at in 0..45 {
        let ends = Ends::new("10.0.3.1", "10.9.0.1", [at, 9]);
        let request = Request { port: 3, ..commit() };
        assert_eq!(track(&mut tracker, &udp(ends, b""), &request).refusal, None, "{at}");
    }
}

#[test]
fn a_zone_has_its_limit() {
    let mut tracker = tracker(Limits { per_zone: 2, ..LIMITS });
    for port in 0..3 {
        let ends = Ends { ports: [port, 9], ..ends() };
        track(&mut tracker, &udp(ends, b""), &commit());
        track(&mut tracker, &udp(ends.back(), b""), &commit());
    }
    assert_eq!((tracker.held_in(0), tracker.counters().refused), (2, 2));
    assert_eq!(track(&mut tracker, &udp(ends(), b""), &Request { zone: 1, ..commit() }).state, TRK | NEW);
}

#[test]
fn a_connection_ends_when_its_time_is_over_and_not_before() {
    let mut tracker = tracker(LIMITS);
    let early = |tracker: &mut Tracker, seconds| tracker.expire(Duration::from_secs(seconds), 1000);
    track(&mut tracker, &udp(ends(), b""), &commit());
    assert_eq!(early(&mut tracker, 29), 0);
    track_at(&mut tracker, &udp(ends().back(), b""), &commit(), 29);
    assert_eq!(early(&mut tracker, 148), 0);
    assert_eq!(early(&mut tracker, 149), 1);
    // Whether or not the wheel has come to it, a connection is not found after its end.
    track_at(&mut tracker, &udp(ends(), b""), &commit(), 200);
    assert_eq!(track_at(&mut tracker, &udp(ends().back(), b""), &Request::default(), 230).state, TRK | NEW);
    assert_eq!(tracker.counters().kept, 0);
}

#[test]
fn both_directions_come_to_the_table_that_keeps_the_connection() {
    let seed = Seed([1, 2]);
    let tables = 4;
    let mapping = source("192.0.2.1", "192.0.2.1", None);
    for port in 1..200 {
        let ends = Ends::new("10.0.0.1", "198.51.100.1", [port + 2000, 80]);
        let datagram = udp(ends, b"");
        let packet = Packet::read(&datagram).unwrap();
        let table = Shard::of(&seed, 3, &packet.tuple, tables);
        assert_eq!(table, Shard::of(&seed, 3, &packet.tuple.reversed().unwrap(), tables));
        let shard = Shard { table, tables };
        let mut tracker = Tracker::new(Settings { shard, ..settings(LIMITS) }, Duration::ZERO);
        let request = Request { zone: 3, translate: Translate::New(&mapping), is_divided: true, ..commit() };
        let to = track(&mut tracker, &datagram, &request).translation.unwrap().to;
        assert_eq!(Shard::of(&seed, 3, &to.reversed().unwrap(), tables), table);
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_a_translation_changes_no_length(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(0x45), Just(0x60), Just(0x4f)],
        kind in prop_oneof![Just(1), Just(6), Just(17), Just(58), Just(132), Just(44), Just(0)],
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        let length = bytes.len() as u16;
        if bytes.len() > 40 {
            if version == 0x60 {
                bytes[4..6].copy_from_slice(&(length - 40).to_be_bytes());
                bytes[6] = kind;
            } else {
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[6..8].copy_from_slice(&[0, 0]);
                bytes[9] = kind;
            }
        }
        let mut tracker = tracker(LIMITS);
        let Ok(packet) = Packet::read(&bytes) else { return Ok(()) };
        let mapping = source("192.0.2.1", "192.0.2.9", Some((1, 9)));
        let request = Request { translate: Translate::New(&mapping), ..commit() };
        for _ in 0..3 {
            let verdict = tracker.track(&packet, &request, Duration::ZERO);
            if let Some(translation) = verdict.translation {
                let mut copy = bytes.clone();
                translate_icmp(&mut copy, &translation);
                prop_assert_eq!(copy.len(), bytes.len());
            }
        }
    }
}
