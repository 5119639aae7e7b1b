//! Several tables that are used as one: the verdicts are those of one table, and limits hold for all tables together.
mod common;

use std::time::Duration;

use common::{ACK, Ends, Random, SYN, Tcp, below, echo, of, udp, unreachable};
use conntrack::{
    Choice, Limits, ListFrom, Mapping, Mark, Packet, Page, Refusal, Request, Seed, Settings, Shard, Shards,
    Side, State, TcpRules, Timeouts, Tracker, Translate, Translation, Verdict, Written, ZoneLimits,
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

/// Limits of zones change for connections that begin later.
#[test]
fn limits_of_zones_can_be_changed() {
    let shards = Shards::new(settings(LIMITS), 8, Duration::ZERO);
    let begin = |zone: u16, numbers: std::ops::Range<u16>| {
        let track =
            |number| track(&shards, &udp(ends(1, number), b""), &Request { port: 0, zone, ..commit() });
        numbers.filter(|number| track(*number).refusal.is_none()).count()
    };
    assert_eq!(begin(1, 0..10), 10);
    shards.limit_zones(ZoneLimits { default: Some(3), zones: [(1, 12), (2, 0)].into() });
    assert_eq!([begin(1, 10..20), begin(2, 0..10), begin(3, 0..10)], [2, 0, 3]);
    assert_eq!([1, 2, 3].map(|zone| shards.held_in(zone)), [12, 0, 3]);
    shards.limit_zones(ZoneLimits { default: None, zones: [(1, 5)].into() });
    assert_eq!([begin(1, 20..30), begin(2, 0..10), shards.held_in(1) as usize], [0, 10, 12]);
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

/// A list has each connection once, in parts, with its translation, and only those of the zone that was asked for.
#[test]
fn connections_are_listed_in_parts_with_their_state() {
    let shards = Shards::new(settings(LIMITS), 4, Duration::ZERO);
    let mapping = source("192.0.2.1");
    for port in 1..=1000 {
        track(&shards, &udp(ends(1, port), b"data"), &Request { zone: 1, ..commit() });
    }
    let request = Request { zone: 2, translate: Translate::New(&mapping), ..commit() };
    for (segment, ends) in [
        (Tcp::new(SYN, 1, 1), ends(2, 7)),
        (Tcp::new(SYN | ACK, 1, 2), Ends::new("198.51.100.1", "192.0.2.1", [80, 7])),
    ] {
        track(&shards, &segment.datagram(ends), &request);
    }
    let all = |zone| {
        let (mut all, mut from, mut parts) = (Vec::new(), Some(ListFrom::default()), 0);
        while let Some(next) = from {
            let Page { connections, next } = shards.list(next, zone, 100, Duration::from_secs(1));
            all.extend(connections);
            (from, parts) = (next, parts + 1);
        }
        (all, parts)
    };
    let (of_one, parts) = all(Some(1));
    let mut ports: Vec<u16> = of_one.iter().map(|listed| listed.original.source.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, (1..=1000).collect::<Vec<_>>());
    assert!(parts > 4, "{parts}");
    assert_eq!((of_one[0].state, of_one[0].timeout), (None, Duration::from_secs(29)));
    let [of_two] = &all(Some(2)).0[..] else { panic!("one connection of zone 2") };
    assert_eq!((of_two.state, of_two.zone), (Some("SYN_RECV"), 2));
    assert_eq!(of_two.reply.destination.address.to_string(), "192.0.2.1");
    assert_eq!(all(None).0.len(), 1001);
    // A connection that is over is not listed, although it still has its place.
    let late = Duration::from_secs(31);
    assert_eq!(shards.list(ListFrom::default(), Some(1), 1, late).connections.len(), 0);
    // A place that never was.
    assert_eq!(shards.list(ListFrom(u64::MAX), None, 1, late), Page::default());
}

/// Connections go on in another process as they were, for the ports that are there too.
#[test]
fn connections_go_on_in_another_process() {
    let [one, other] = [(); 2].map(|()| Shards::new(settings(LIMITS), 4, Duration::ZERO));
    let mapping = source("192.0.2.1");
    let translating = Request { zone: 2, translate: Translate::New(&mapping), ..commit() };
    let marked = Written { value: Mark { mark: 7, label: 9 << 100 }, mask: Mark { mark: !0, label: !0 } };
    for port in 1..=100 {
        track(&one, &udp(ends(1, port), b"data"), &Request { zone: 1, commit: Some(marked), ..commit() });
    }
    let back = |ports| Ends::new("198.51.100.1", "192.0.2.1", ports);
    track(&one, &Tcp::new(SYN, 100, 0).datagram(ends(2, 7)), &translating);
    track(&one, &Tcp::new(SYN | ACK, 500, 101).datagram(back([80, 7])), &translating);
    track(&one, &Tcp::new(ACK, 101, 501).datagram(ends(2, 7)), &translating);
    // Port 3 is not in the other process.
    track(&one, &udp(ends(3, 1), b"data"), &Request { port: 3, zone: 1, ..commit() });

    let later = Duration::from_secs(1000);
    other.restore(
        &one.save(Duration::from_secs(1)),
        |port| [Some(2), Some(1), None, None][usize::from(port)],
        later,
    );
    assert_eq!((other.counters().kept, one.counters().kept), (101, 102));
    let known = Request { translate: Translate::Existing, ..Request::default() };
    let tracked = |datagram: &[u8], zone| {
        other.track(&Packet::read(datagram).unwrap(), &Request { zone, ..known }, later)
    };
    let answer = tracked(&udp(ends(1, 50).back(), b"data"), 1);
    assert_eq!(
        (answer.state, answer.mark),
        (State::TRACKED | State::ESTABLISHED | State::REPLY, marked.value)
    );
    assert!(tracked(&udp(ends(3, 1).back(), b"data"), 1).state.has(State::NEW), "it has ended");
    let answer = tracked(&Tcp::new(ACK, 501, 101).datagram(back([80, 7])), 2);
    assert!(answer.state.has(State::ESTABLISHED | State::REPLY), "{answer:?}");
    assert_eq!(answer.translation.unwrap().to.destination.address.to_string(), "10.0.0.2");
    let listed = other.list(ListFrom::default(), Some(2), 10, later).connections;
    assert_eq!((listed[0].state, listed[0].port), (Some("ESTABLISHED"), 2));
    // The connections count for the port that has them here, and end in their time.
    let over = later + Duration::from_secs(29);
    assert_eq!(other.list(ListFrom::default(), Some(1), 1000, over).connections.len(), 1, "the answered one");
    // Bytes of no such process change nothing, and neither do connections that are there.
    for bytes in [&[0xff; 1000][..], &[0; 1000], &one.save(Duration::ZERO)[..77]] {
        other.restore(bytes, |_| Some(u16::MAX), later);
    }
    other.restore(&[0xff; 12_000], |_| Some(1), later);
    other.restore(&one.save(Duration::ZERO), |_| Some(1), later);
    assert!(other.counters().kept <= 103, "{:?}", other.counters());
}
