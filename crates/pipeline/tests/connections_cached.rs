//! Frames that are tracked, with and without a cache: random tables with several zones, address translation, marks and
//! labels. The frames that leave and the counters of all flows are the same.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../flow-tables/tests/openvswitch/flows.rs"]
mod flows;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../flow-tables/tests/openvswitch/frames.rs"]
mod frames;
#[path = "../../flow-tables/tests/passing/mod.rs"]
mod passing;

use std::sync::Arc;
use std::time::Duration;

use common::Random;
use flow::{Controller, Field, Flow, Key, Learn};
use flow_tables::{Cache, Change, Connection, HeaderWindow, Limits, Outcome, Surroundings, Tables, Track};
use flows::of;
use frames::below;
use passing::{Sent, cached, uncached};
use pipeline::{Connections, PortId};

struct Around<'a> {
    connections: &'a Connections,
    port: u16,
    now: Duration,
}

impl Surroundings for Around<'_> {
    fn now_ms(&mut self) -> u64 {
        self.now.as_millis() as u64
    }

    fn ports(&self) -> &[u16] {
        &[1, 2, 3, 4]
    }

    fn is_live(&self, port: u16) -> bool {
        self.ports().contains(&port)
    }

    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection {
        self.connections.track(Some(PortId(self.port)), track, window, self.now)
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

/// A random `ct`, to a table behind this one or to none.
fn ct(random: &mut Random, table: usize) -> String {
    let mut words = vec![of(random, &["zone=1", "zone=2", "zone=NXM_NX_REG0[0..15]"]).to_owned()];
    if below(random, 4) > 0 {
        words.push(format!("table={}", (table + 1 + below(random, 2)).min(5)));
    }
    let nat = of(
        random,
        &["", "", "nat", "nat(src=10.9.0.7)", "nat(dst=10.0.0.1)", "nat(src=10.9.0.1-10.9.0.3:5000-5003)"],
    );
    if !nat.is_empty() {
        words.push(nat.to_owned());
    }
    if nat.contains('(') || below(random, 4) > 0 {
        words.push("commit".to_owned());
        words.extend(Some("force".to_owned()).filter(|_| below(random, 6) == 0));
        let exec = of(
            random,
            &[
                "",
                "exec(set_field:0x1/0x3->ct_mark)",
                "exec(set_field:2->ct_mark,move:NXM_OF_ETH_SRC[]->NXM_NX_CT_LABEL[0..47])",
                "exec(move:NXM_NX_REG0[0..7]->NXM_NX_CT_LABEL[64..71])",
            ],
        );
        words.extend(Some(exec.to_owned()).filter(|exec| !exec.is_empty()));
    }
    format!("ct({})", words.join(","))
}

const STATES: [&str; 9] = [
    "ct_state=+trk+new",
    "ct_state=+trk+est",
    "ct_state=+trk+rpl",
    "ct_state=+trk+inv",
    "ct_state=-trk",
    "ct_mark=1/1",
    "ct_label=0x100000000000000000/0xff0000000000000000",
    "ct_zone=2",
    "ct_state=+trk+snat",
];

/// Random tables, of which a third of the flows track, and flows that match connections.
fn tables(random: &mut Random) -> Vec<String> {
    let mut all = flows::flows(random);
    for text in &mut all {
        let table = Flow::parse(text).unwrap().table.into();
        if below(random, 3) == 0 {
            let ct = ct(random, table);
            let tracked = match below(random, 2) {
                0 => text.replace(" actions=", &format!(" actions={ct},")),
                _ => format!("{text},{ct}"),
            };
            // The former text stays if the new one is no flow: an action does not fit all frames, or `ct` would stand behind
            // `exit` or `goto_table`.
            if Flow::parse(&tracked).is_ok() {
                *text = tracked;
            }
        }
    }
    for table in 0..6 {
        for kind in ["ip", "ipv6"] {
            let first = ct(random, table);
            let (priority, port) =
                of(random, &[(50, ""), (5000, ",in_port=1"), (5000, ",dl_src=02:00:00:00:00:01")]);
            all.push(format!("table={table},priority={priority},{kind}{port} actions={first},output:1"));
            for _ in 0..3 {
                let (state, port) = (of(random, &STATES), 1 + below(random, 4));
                let (ct, next) = (ct(random, table), (table + 1).min(5));
                let more = match below(random, 7) {
                    0 => "exit".to_owned(),
                    1 => format!("resubmit(,{next})"),
                    2 => format!("ct_clear,resubmit(,{next})"),
                    3 => ct,
                    4 => format!("{ct},resubmit(,{next})"),
                    5 => {
                        format!(
                            "check_pkt_larger(100)->NXM_NX_REG0[0],{ct},clone(resubmit(,{next})),output:2"
                        )
                    }
                    _ => format!("{ct},output:3"),
                };
                let priority = 6000 + all.len();
                // A meter is an instruction: it stands first.
                let meter = of(random, &["", "", "", "meter:1,"]);
                all.push(format!(
                    "table={table},priority={priority},{kind},{state} actions={meter}output:{port},{more}"
                ));
            }
        }
    }
    // Two ports track each frame, and keep each connection.
    for kind in ["ip", "ipv6"] {
        for port in [1, 2] {
            let nat = of(random, &["", ",nat"]);
            all.push(format!("table=0,priority=7000,{kind},in_port={port} actions=ct(table=1,zone=1{nat})"));
        }
        let nat = of(random, &["", ",nat", ",nat(src=10.9.0.7)", ",nat(dst=10.0.0.2)"]);
        let new = |priority: u16| format!("table=1,priority={priority},{kind},ct_state=+trk+new-inv");
        let exec = "exec(set_field:1->ct_mark)";
        all.push(format!("{} actions=ct(commit,zone=1{nat},{exec}),resubmit(,2)", new(7001)));
        all.push(format!("{} actions=ct(commit,zone=1),resubmit(,2)", new(7000)));
        all.push(format!("table=1,priority=7000,{kind},ct_state=+trk+est actions=output:4,resubmit(,2)"));
    }
    // Some translate to addresses of the other version of IP.
    all.retain(|text| Flow::parse(text).is_ok());
    all
}

fn parsed(flows: &[String]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    for text in flows {
        let flow = Flow::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        tables.change(Change::Add(flow), 0).unwrap();
    }
    flows::groups().into_iter().for_each(|group| tables.set_group(group).unwrap());
    let meter = "meter=1 pktps burst bands=type=drop rate=20 burst_size=100";
    tables.set_meter(flow::Meter::parse(meter).unwrap(), 0).unwrap();
    tables
}

fn counts(tables: &Tables) -> Vec<(String, (u64, u64))> {
    let entries = (0..=u8::MAX).flat_map(|table| tables.entries(table));
    entries.map(|entry| (entry.flow.to_string(), entry.counters().get())).collect()
}

/// The frame in the other direction, if it is IPv4 without tags and options.
fn back(frame: &[u8]) -> Option<Vec<u8>> {
    let mut back = frame.to_vec();
    if frame.get(12..15)? != [8, 0, 0x45] || frame.len() < 38 {
        return None;
    }
    let ports = if matches!(frame[23], 6 | 17 | 132) { 2 } else { 0 };
    for (one, other, bytes) in [(0, 6, 6), (26, 30, 4), (34, 36, ports)] {
        back[one..one + bytes].copy_from_slice(&frame[other..other + bytes]);
        back[other..other + bytes].copy_from_slice(&frame[one..one + bytes]);
    }
    Some(back)
}

fn metadata(port: u16) -> Key {
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, port.into());
    metadata
}

#[test]
fn tracked_frames_leave_the_same_with_and_without_the_cache() {
    let mut random = Random(47);
    let (mut hits, mut sent, mut tracked, mut established, mut unread) = (0, 0, 0, 0, 0);
    for set in 0..40 {
        let all = tables(&mut random);
        let (with, without) = (parsed(&all), parsed(&all));
        let connections = [(); 2].map(|()| Connections::with_seed(5, [3, set]));
        let mut caches: Vec<_> = (1..=4).map(|port| Cache::new(64, &metadata(port))).collect();
        let mut frames: Vec<_> = (0..40).map(|_| frames::frame(&mut random)).collect();
        frames.extend(frames.iter().filter_map(|frame| back(frame)).collect::<Vec<_>>());
        let mut outcomes = [Outcome::default(), Outcome::default()];
        for step in 0..400 {
            let frame = &frames[below(&mut random, frames.len())];
            let port = below(&mut random, 4) as u16;
            let now = Duration::from_millis(step * of(&mut random, &[0, 300]));
            let mut around = connections.each_ref().map(|connections| Around { connections, port, now });
            let ([one, other], frame) = (&mut around, Sent { frame, partial: None });
            let cache = &mut caches[usize::from(port)];
            let (ours, is_unread) = cached(cache, &with, frame, one, &mut outcomes[0]);
            let theirs = uncached(&without, frame, &metadata(port + 1), other, &mut outcomes[1]);
            assert_eq!(ours, theirs, "set {set}, step {step}: {:02x?}\n{all:#?}", frame.frame);
            (sent, unread) = (sent + ours.len(), unread + u32::from(is_unread));
        }
        caches.iter_mut().for_each(|cache| cache.flush(0));
        let counts = [&with, &without].map(counts);
        assert_eq!(counts[0], counts[1]);
        let of_established = counts[0].iter().filter(|(flow, _)| flow.contains("+est"));
        established += of_established.map(|(_, (frames, _))| frames).sum::<u64>();
        hits += caches.iter().map(|cache| cache.counts().hits).sum::<u64>();
        tracked += connections[0].counters().begun;
    }
    let found = format!(
        "{hits} hits, {unread} frames unread, {sent} sent, {tracked} connections, {established} of established ones"
    );
    assert!(hits > 10_000 && sent > 10_000 && tracked > 200 && established > 100 && unread > 20, "{found}");
}
