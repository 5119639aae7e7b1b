//! Several tables that are used as one: the verdicts are those of one table, and limits hold for all tables together.
mod common;

use std::time::Duration;

use common::{ACK, Ends, Random, SYN, Tcp, below, echo, of, udp, unreachable};
use conntrack::{
    Choice, Limits, Mapping, Packet, Refusal, Request, Seed, Settings, Shard, Shards, Side, State, TcpRules,
    Timeouts, Tracker, Translate, Translation, Verdict, Written,
};

const LIMITS: Limits = Limits { connections: 40_000, ports: 4, per_port: 10_000, per_zone: u32::MAX };

fn settings(limits: Limits) -> Settings {
    let (tcp, timeouts) = (TcpRules::default(), Timeouts::default());
    Settings { limits, tcp, timeouts, shard: Shard::ALL, seed: Seed([1, 2]) }
}

fn source(address: &str) -> Mapping {
    let address = address.parse().unwrap();
    Mapping {
        side: Side::Source,
        addresses: Some((address, address)),
        ports: None,
        choice: Choice::Keep,
        persistent: false,
    }
}

fn commit() -> Request<'static> {
    Request { commit: Some(Written::default()), translate: Translate::Existing, ..Request::default() }
}

fn track(shards: &Shards, datagram: &[u8], request: &Request<'_>) -> Verdict {
    shards.track(&Packet::read(datagram).unwrap(), request, Duration::ZERO)
}

fn ends(host: u8, port: u16) -> Ends {
    Ends::new(&format!("10.0.0.{host}"), "198.51.100.1", [port, 80])
}

/// Zone 2 translates from the middle on: the connections that it has by then move into one table.
#[test]
fn verdicts_are_those_of_one_table() {
    let mut random = Random(5);
    let (shards, mut one) =
        (Shards::new(settings(LIMITS), 8, Duration::ZERO), Tracker::new(settings(LIMITS), Duration::ZERO));
    let mapping = source("192.0.2.1");
    let mut arrived: Vec<Ends> = Vec::new();
    let (mut answered, mut translated, mut related) = (0, 0, 0);
    for step in 0..20_000_u64 {
        // Each host has ports of its own, because each table chooses by itself which other port replaces one that is
        // taken.
        let host = 1 + below(&mut random, 3) as u8;
        let new = ends(host, 2000 + 1000 * u16::from(host) + below(&mut random, 300) as u16);
        let known = arrived.get(below(&mut random, arrived.len().max(1))).copied();
        let answer = known.filter(|_| below(&mut random, 2) == 0).map(Ends::back);
        let ends = answer.unwrap_or(new);
        let datagram = match below(&mut random, 6) {
            0 => Tcp::new(of(&mut random, &[SYN, SYN | ACK, ACK]), 1, 1).datagram(ends),
            1 => echo(ends, answer.is_some(), ends.ports[0]),
            2 => unreachable(ends.back(), &udp(ends, b"lost"), 60),
            _ => udp(ends, b"data"),
        };
        let (zone, translates) = (below(&mut random, 3) as u16, step > 10_000 && answer.is_none());
        let translate = match zone {
            2 if translates => Translate::New(&mapping),
            _ => of(&mut random, &[Translate::No, Translate::Existing]),
        };
        let commit = (below(&mut random, 3) == 0).then(Written::default);
        let request =
            Request { zone, translate, commit, port: below(&mut random, 4) as u16, ..commit_none() };
        let now = Duration::from_millis(step * 7);
        let packet = Packet::read(&datagram).unwrap();
        let (ours, expected) = (shards.track(&packet, &request, now), one.track(&packet, &request, now));
        assert_eq!(ours, expected, "step {step}: {ends:?}, {request:?}");
        if let Some(translation) = ours.translation {
            let to = translation.to;
            let ends = Ends {
                from: to.source.address,
                to: to.destination.address,
                ports: [to.source.port, to.destination.port],
            };
            arrived.extend(Some(ends).filter(|_| !to.is_icmp()));
        }
        arrived.push(new);
        answered += u32::from(ours.state.has(State::ESTABLISHED | State::REPLY));
        translated += u32::from(ours.translation.is_some());
        related += u32::from(ours.state.has(State::RELATED));
    }
    assert_eq!(shards.counters().begun, one.counters().begun);
    assert!(answered > 1000 && translated > 300 && related > 300, "{answered} {translated} {related}");
}

fn commit_none() -> Request<'static> {
    Request { commit: None, ..commit() }
}

/// A port's limit, a zone's, and the connections that are free, over all tables.
#[test]
fn limits_hold_for_all_tables_together() {
    let limits = Limits { connections: 400, ports: 3, per_port: 100, per_zone: 150 };
    let shards = Shards::new(settings(limits), 8, Duration::ZERO);
    let begin = |port: u16, zone: u16, number: u16| {
        let datagram = udp(ends(1, number), b"");
        let verdict = track(&shards, &datagram, &Request { port, zone, ..commit() });
        // A connection with an answer is not replaced by newer ones.
        track(&shards, &udp(ends(1, number).back(), b""), &Request { port, zone, ..commit_none() });
        verdict.refusal
    };
    let refused = |port: u16, zone: u16, numbers: std::ops::Range<u16>| {
        let all: Vec<_> = numbers.filter_map(|number| begin(port, zone, number)).collect();
        (all.len(), all.last().copied())
    };
    assert_eq!(refused(0, 1, 1000..1150), (50, Some(Refusal::Port)));
    assert_eq!(refused(1, 1, 2000..2100), (50, Some(Refusal::Zone)));
    assert_eq!(shards.counters().kept, 150);
    // Two ports leave the third one its part.
    assert_eq!(refused(1, 2, 3000..3200), (150, Some(Refusal::Port)));
    assert_eq!(refused(2, 3, 4000..4200), (100, Some(Refusal::Port)));
}

/// A zone whose addresses are translated has one table, which is smaller than the limit of a port.
#[test]
fn no_port_fills_the_table_of_a_translated_zone() {
    let limits = Limits { connections: 800, ports: 3, per_port: 400, per_zone: u32::MAX };
    let shards = Shards::new(settings(limits), 8, Duration::ZERO);
    // Several addresses, so that places end before translated ports.
    let mapping = Mapping {
        addresses: Some(("192.0.2.1".parse().unwrap(), "192.0.2.9".parse().unwrap())),
        ..source("192.0.2.1")
    };
    let begin = |port: u16, number: u16| {
        let request = Request { port, zone: 1, translate: Translate::New(&mapping), ..commit() };
        let ends = ends(port as u8 + 1, number);
        let verdict = track(&shards, &udp(ends, b""), &request);
        if let Some(Translation { to, .. }) = verdict.translation {
            let ports = [to.source.port, to.destination.port];
            let leaving = Ends { from: to.source.address, to: to.destination.address, ports };
            let answer =
                track(&shards, &udp(leaving.back(), b""), &Request { port, zone: 1, ..commit_none() });
            assert!(answer.state.has(State::ESTABLISHED));
        }
        verdict.refusal.is_none()
    };
    // A table has 200 places: half of them for the first port, and half of the others for the next one.
    assert_eq!((1000..1400).filter(|number| begin(0, *number)).count(), 100);
    assert_eq!((1000..1400).filter(|number| begin(1, *number)).count(), 50);
    assert!(begin(2, 1000), "a neighbour begins a connection");
}

/// Workers track connections of their own while a zone becomes whole. Each frame finds its connection.
#[test]
fn no_connection_is_lost_while_a_zone_moves() {
    let shards = Shards::new(settings(LIMITS), 4, Duration::ZERO);
    let mapping = source("192.0.2.1");
    std::thread::scope(|scope| {
        for worker in 0..3_u8 {
            let (shards, mapping) = (&shards, &mapping);
            scope.spawn(move || {
                // Each has a port of its own: all zones may come into one table, of which a port gets its share.
                let port = worker.into();
                for number in 0..600 {
                    for zone in 1..4 {
                        let ends = ends(worker + 1, 3000 + number);
                        let first = track(shards, &udp(ends, b""), &Request { zone, port, ..commit() });
                        assert_eq!(first.state, State::TRACKED | State::NEW);
                        let look = Request { zone, ..commit_none() };
                        let answer = track(shards, &udp(ends.back(), b""), &look);
                        assert_eq!(answer.state, State::TRACKED | State::ESTABLISHED | State::REPLY);
                        assert_eq!(
                            track(shards, &udp(ends, b""), &look).state,
                            State::TRACKED | State::ESTABLISHED
                        );
                        if worker == 0 && number == 300 + 50 * zone {
                            let translate = Translate::New(mapping);
                            let translated = Request { zone, port, translate, ..commit() };
                            let verdict =
                                track(shards, &udp(Ends { ports: [9, 9], ..ends }, b""), &translated);
                            assert!(verdict.translation.is_some());
                        }
                    }
                }
            });
        }
    });
    assert_eq!(shards.counters().kept, 3 * 3 * 600 + 3);
}
