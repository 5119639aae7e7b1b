//! The cache changes neither bytes nor counters, and no change of tables leaves an old outcome.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "openvswitch/flows.rs"]
mod flows;
#[path = "openvswitch/frames.rs"]
mod frames;
mod ports;

use common::Random;
use flow::{Field, Flow, Key};
use flow_tables::{Cache, Change, HeaderWindow, Limits, Outcome, Tables};
use ports::Ports;

/// What comes out, as text.
fn shown(outcome: &Outcome) -> Vec<String> {
    let deliveries = outcome.deliveries.iter().map(|delivery| {
        format!(
            "{} {:?} {:?} {:02x?}",
            delivery.port,
            delivery.cut,
            delivery.header,
            outcome.header(&delivery.header)
        )
    });
    let overrun = outcome.overrun.iter().map(|why| format!("{why:?}"));
    deliveries.chain(overrun).chain(outcome.effects.iter().map(|effect| format!("{effect:?}"))).collect()
}

fn tables(flows: &[String]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    flows::groups().into_iter().for_each(|group| tables.set_group(group).unwrap());
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

fn counts(tables: &Tables) -> Vec<(String, (u64, u64))> {
    let entries = (0..=u8::MAX).flat_map(|table| tables.entries(table));
    entries.map(|entry| (entry.flow.to_string(), entry.counters().get())).collect()
}

#[test]
fn bytes_and_counters_are_the_same_with_and_without_the_cache() {
    let mut random = Random(31);
    let mut cache = Cache::new(64);
    let (mut held, mut frames_seen) = (0, 0);
    for _ in 0..60 {
        let mut all = flows::flows(&mut random);
        // Two tables of equal flows: each counts for itself.
        let (mut with, mut without) = (tables(&all), tables(&all));
        let frames: Vec<_> = (0..30).map(|_| frames::frame(&mut random)).collect();
        let mut outcomes = (Outcome::default(), Outcome::default());
        cache.forget();
        for step in 0..120 {
            if step % 40 == 39 {
                let flow = Flow::parse(&all.remove(0)).unwrap();
                let change = || Change::Delete {
                    table: Some(flow.table),
                    priority: flow.priority,
                    wanted: flow.wanted,
                    strict: true,
                };
                with.change(change(), 0).unwrap();
                without.change(change(), 0).unwrap();
            }
            let frame = &frames[frames::below(&mut random, frames.len())];
            let mut metadata = Key::ZERO;
            metadata.set(Field::InPortOxm, 1 + u128::from(random.next() % 4));
            let before = cache.hits();
            cache.execute(
                &with,
                &mut HeaderWindow::new(frame, frame.len(), 1),
                &metadata,
                &mut Ports,
                &mut outcomes.0,
            );
            held += cache.hits() - before;
            frames_seen += 1;
            without.execute(frame, frame.len(), &metadata, &mut Ports, &mut outcomes.1);
            assert_eq!(shown(&outcomes.0), shown(&outcomes.1));
            for outcome in [&outcomes.0, &outcomes.1] {
                outcome.hits.iter().for_each(|entry| entry.count(frame.len(), 0));
            }
        }
        assert_eq!(counts(&with), counts(&without));
    }
    assert!(held > frames_seen / 10, "{held} of {frames_seen}");
}

#[test]
fn a_change_of_flows_groups_or_ports_is_seen_at_once() {
    let mut tables = tables(&["actions=group:9".to_owned()]);
    let (mut cache, mut outcome) = (Cache::new(8), Outcome::default());
    let frame = [2; 60];
    let mut sent = |tables: &Tables, cache: &mut Cache| {
        cache.execute(tables, &mut HeaderWindow::new(&frame, 60, 1), &Key::ZERO, &mut Ports, &mut outcome);
        outcome.deliveries.iter().map(|delivery| delivery.port).collect::<Vec<_>>()
    };
    assert_eq!(sent(&tables, &mut cache), []);
    let bucket = |port: u16| flow::Bucket { actions: vec![flow::Action::Output(port)], ..Default::default() };
    for port in [2, 3] {
        let group = flow::Group { id: 9, buckets: vec![bucket(port)], ..Default::default() };
        tables.set_group(group).unwrap();
        assert_eq!((sent(&tables, &mut cache), sent(&tables, &mut cache)), (vec![port], vec![port]));
    }
    tables.change(Change::Add(Flow::parse("actions=output:4").unwrap()), 0).unwrap();
    assert_eq!((sent(&tables, &mut cache), sent(&tables, &mut cache)), (vec![4], vec![4]));
    assert_eq!(cache.hits(), 3);
    cache.forget();
    assert_eq!(sent(&tables, &mut cache), [4]);
    assert_eq!(cache.hits(), 3);
}

/// Caches are of one port each: frames with all the fields there are, by one port, leave another's outcomes where they are.
#[test]
fn frames_of_one_port_evict_nothing_of_another() {
    let tables = tables(&["actions=output:2".to_owned()]);
    let mut caches = [Cache::new(16), Cache::new(16)];
    let mut outcome = Outcome::default();
    let mut send = |port: usize, source: u64| {
        let mut frame = [2; 60];
        frame[6..14].copy_from_slice(&source.to_be_bytes());
        caches[port].execute(
            &tables,
            &mut HeaderWindow::new(&frame, 60, 1),
            &Key::ZERO,
            &mut Ports,
            &mut outcome,
        );
        caches[port].hits()
    };
    assert_eq!(send(0, 1), 0);
    let mut random = Random(5);
    (0..10_000).for_each(|_| _ = send(1, random.next()));
    assert_eq!(send(0, 1), 1);
}
