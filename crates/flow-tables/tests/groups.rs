//! Groups choose buckets: by the fields of a frame and the weights, and by the ports that are live.
use std::sync::Arc;

use flow::{Controller, Flow, Group, Key, Learn};
use flow_tables::{Cache, Change, Connection, HeaderWindow, Limits, Outcome, Surroundings, Tables, Track};

/// Ports, some of which are live.
struct Live(Vec<u16>);

impl Surroundings for Live {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        &[1, 2, 3, 4]
    }

    fn is_live(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    fn track(&mut self, _: &Track, _: &mut HeaderWindow) -> Connection {
        Connection::default()
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

fn tables(groups: &[&str]) -> Tables {
    let mut tables = Tables::new(1, 1, Limits::default());
    groups.iter().for_each(|text| tables.set_group(Group::parse(text).unwrap()).unwrap());
    let flow = Flow::parse("actions=group:1").unwrap();
    tables.change(Change::Add(flow), 0).unwrap();
    tables
}

/// UDP from one of 64 hosts, from one of 64 ports.
fn frame(host: u8, port: u8) -> [u8; 60] {
    let mut frame = [2; 60];
    frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame[26..34].copy_from_slice(&[10, 0, 0, host, 10, 0, 1, 1]);
    frame[34..40].copy_from_slice(&[4, port, 0, 53, 0, 26]);
    frame
}

/// The port by which each frame leaves, by the tables and twice by a cache.
fn ports(tables: &Tables, live: &[u16]) -> Vec<Vec<Option<u16>>> {
    let (mut around, mut outcome) = (Live(live.to_vec()), Outcome::default());
    let mut cache = Cache::new(1 << 13, &Key::ZERO);
    let mut port = |host: u8, port: u8| {
        let frame = frame(host, port);
        tables.execute(&frame, 60, &Key::ZERO, &mut around, &mut outcome);
        let chosen: Vec<u16> = outcome.deliveries.iter().map(|sent| sent.port).collect();
        assert!(chosen.len() < 2);
        for _ in 0..2 {
            cache.execute(tables, &mut HeaderWindow::new(&frame, 60, 1), &mut around, &mut outcome);
            let again: Vec<u16> = outcome.deliveries.iter().map(|sent| sent.port).collect();
            assert_eq!(again, chosen, "host {host}, port {port}");
        }
        chosen.first().copied()
    };
    (0..64).map(|host| (0..64).map(|number| port(host, number)).collect()).collect()
}

fn share(all: &[Vec<Option<u16>>], port: u16) -> f64 {
    let all: Vec<_> = all.iter().flatten().collect();
    all.iter().filter(|chosen| ***chosen == Some(port)).count() as f64 / all.len() as f64
}

#[test]
fn buckets_are_selected_by_weight_and_keep_their_connections() {
    for method in ["dp_hash", "hash"] {
        let tables = tables(&[&format!(
            "group_id=1,type=select,selection_method={method},\
             bucket=bucket_id:1,weight:100,watch_port:1,actions=output:1,\
             bucket=bucket_id:2,weight:50,watch_port:2,actions=output:2,\
             bucket=bucket_id:3,weight:50,watch_port:3,actions=output:3,\
             bucket=bucket_id:4,weight:0,actions=output:4"
        )]);
        let all = ports(&tables, &[1, 2, 3, 4]);
        for (port, wanted) in [(1, 0.5), (2, 0.25), (3, 0.25), (4, 0.0)] {
            // 4,096 connections: five times the standard deviation is 4 %.
            assert!(
                (share(&all, port) - wanted).abs() < 0.04,
                "{method}, port {port}: {}",
                share(&all, port)
            );
        }
        // The connections of a port that has gone move to the others, and no other connection moves.
        let without = ports(&tables, &[1, 3, 4]);
        for (before, after) in all.iter().flatten().zip(without.iter().flatten()) {
            assert!(*after != Some(2) && (*before == Some(2) || before == after), "{before:?} {after:?}");
        }
        assert!((share(&without, 1) - 2.0 / 3.0).abs() < 0.04, "{}", share(&without, 1));
        assert_eq!(share(&ports(&tables, &[]), 4), 0.0);
    }
}

#[test]
fn a_hash_of_fields_takes_no_other_field() {
    let tables = tables(&[
        "group_id=1,type=select,selection_method=hash,fields(ip_src),bucket=output:1,bucket=output:2,bucket=output:3",
    ]);
    let all = ports(&tables, &[1, 2, 3]);
    assert!(all.iter().all(|of_host| of_host.iter().all(|port| *port == of_host[0])));
    assert!((1..=3).all(|port| share(&all, port) > 0.2));
}

#[test]
fn fast_failover_takes_the_first_bucket_that_is_live() {
    let tables = tables(&[
        "group_id=1,type=ff,bucket=watch_port:2,actions=output:2,bucket=watch_group:2,actions=group:2,\
         bucket=watch_port:1,actions=output:1",
        "group_id=2,type=all,bucket=watch_port:3,actions=output:3",
    ]);
    for (live, port) in [(&[1, 2, 3][..], Some(2)), (&[1, 3], Some(3)), (&[1, 4], Some(1)), (&[4], None)] {
        assert!(ports(&tables, live).iter().flatten().all(|chosen| *chosen == port), "{live:?}");
    }
}
