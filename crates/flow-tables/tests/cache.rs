//! The cache changes neither bytes nor counters, and no change of tables leaves an old outcome.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "openvswitch/flows.rs"]
mod flows;
#[path = "openvswitch/frames.rs"]
mod frames;
#[path = "openvswitch/labelled.rs"]
mod labelled;
mod passing;
mod ports;

use common::Random;
use flow::{Field, Flow, Key};
use flow_tables::{Cache, Change, HeaderWindow, Limits, Outcome, Tables};
use passing::{Sent, cached, uncached};
use ports::Ports;

/// What comes out, as text.
fn shown(outcome: &Outcome) -> Vec<String> {
    let deliveries = outcome.deliveries.iter().map(|delivery| {
        format!(
            "{} {:?} {} {:02x?}",
            delivery.port,
            delivery.cut,
            delivery.header.frame_bytes,
            outcome.header(&delivery.header)
        )
    });
    let overrun = outcome.overrun.iter().map(|why| format!("{why:?}"));
    deliveries.chain(overrun).chain(outcome.effects.iter().map(|effect| format!("{effect:?}"))).collect()
}

fn without_groups(flows: &[String]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

fn tables(flows: &[String]) -> Tables {
    let mut tables = without_groups(flows);
    flows::groups().into_iter().for_each(|group| tables.set_group(group).unwrap());
    tables
}

fn counts(tables: &Tables) -> Vec<(String, (u64, u64))> {
    let entries = (0..=u8::MAX).flat_map(|table| tables.entries(table));
    entries.map(|entry| (entry.flow.to_string(), entry.counters().get())).collect()
}

fn metadata(port: u64) -> Key {
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, port.into());
    metadata
}

/// Frames that were seen before, with other values in fields that may matter to no flow.
fn varied(random: &mut Random, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frames::below(random, 2) == 0 {
        let at = frames::below(random, frame.len());
        frame[at] ^= 1 << frames::below(random, 8);
    }
    frame
}

#[test]
fn bytes_and_counters_are_the_same_with_and_without_the_cache() {
    let mut random = Random(31);
    let mut caches: Vec<_> = (1..=4).map(|port| Cache::new(64, &metadata(port))).collect();
    let (mut frames_seen, mut unread) = (0, 0);
    for _ in 0..60 {
        let mut all = flows::flows(&mut random);
        all.extend(labelled::flows(&mut random));
        // Two tables of equal flows: each counts for itself.
        let (mut with, mut without) = (tables(&all), tables(&all));
        let mut frames: Vec<_> = (0..20).map(|_| frames::frame(&mut random)).collect();
        frames.extend((0..10).map(|_| labelled::frame(&mut random)));
        let mut outcomes = (Outcome::default(), Outcome::default());
        for step in 0..240 {
            if step % 80 == 79 {
                let flow = Flow::parse(&all.remove(frames::below(&mut random, all.len()))).unwrap();
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
            let frame = &varied(&mut random, frame);
            let port = random.next() % 4;
            let (sent, cache) = (Sent { frame, partial: None }, &mut caches[port as usize]);
            let (ours, is_unread) = cached(cache, &with, sent, &mut Ports, &mut outcomes.0);
            (frames_seen, unread) = (frames_seen + 1, unread + u64::from(is_unread));
            let theirs = uncached(&without, sent, &metadata(port + 1), &mut Ports, &mut outcomes.1);
            assert_eq!(ours, theirs, "{frame:02x?}\n{all:#?}");
        }
        caches.iter_mut().for_each(|cache| cache.flush(0));
        assert_eq!(counts(&with), counts(&without));
        let visits = |tables: &Tables| (0..8).map(|table| tables.visits(table)).collect::<Vec<_>>();
        assert_eq!(visits(&with), visits(&without));
    }
    let held: u64 = caches.iter().map(|cache| cache.counts().hits).sum();
    assert!(held > frames_seen / 10 && unread > 100, "{held} of {frames_seen}, {unread} of them unread");
}

#[test]
fn a_change_of_flows_groups_or_ports_is_seen_at_once() {
    let mut tables = tables(&["actions=group:9".to_owned()]);
    let (mut cache, mut outcome) = (Cache::new(8, &Key::ZERO), Outcome::default());
    let frame = [2; 60];
    let mut sent = |tables: &Tables, cache: &mut Cache| {
        cache.execute(tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
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
    assert_eq!(cache.counts().hits, 3);
    cache.forget();
    assert_eq!(sent(&tables, &mut cache), [4]);
    assert_eq!(cache.counts().hits, 3);
}

/// Caches are of one port each: frames of one port with all sources there are leave the outcomes of another port.
#[test]
fn frames_of_one_port_evict_nothing_of_another() {
    let tables = tables(&["actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],output:2".to_owned()]);
    let mut caches = [Cache::new(16, &metadata(1)), Cache::new(16, &metadata(2))];
    let mut outcome = Outcome::default();
    let mut send = |port: usize, source: u64| {
        let mut frame = [2; 60];
        frame[6..14].copy_from_slice(&source.to_be_bytes());
        caches[port].execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
        caches[port].counts().hits
    };
    assert_eq!(send(0, 1 << 16), 0);
    let mut random = Random(5);
    (0..10_000).for_each(|_| _ = send(1, random.next()));
    assert_eq!(send(0, 1 << 16), 1);
}

/// Frames that come once replace each other, and not the outcome of a connection that sends again and again.
#[test]
fn frames_that_come_once_do_not_evict_a_connection_of_their_port() {
    let tables = tables(&["ip actions=output:2".to_owned(), "ip,nw_src=1.2.3.4 actions=output:3".to_owned()]);
    let (mut cache, mut outcome) = (Cache::new(16, &metadata(1)), Outcome::default());
    let mut send = |source: u32| {
        let mut frame = [2; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
        frame[26..30].copy_from_slice(&source.to_be_bytes());
        let before = cache.counts().hits;
        cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
        cache.counts().hits > before
    };
    send(7);
    let mut random = Random(9);
    let hits = (0..1000).filter(|_| {
        (0..8).for_each(|_| _ = send(random.next() as u32 | 8));
        send(7)
    });
    let hits = hits.count();
    assert!(hits > 900, "{hits} of 1000");
}

/// Bits that no flow matches and no action reads or writes make no places of their own.
#[test]
fn frames_that_differ_in_fields_of_no_flow_share_an_outcome() {
    let tables = without_groups(&["ip,nw_dst=10.0.0.0/8 actions=dec_ttl,output:2".to_owned()]);
    let (mut cache, mut outcome) = (Cache::new(16, &metadata(1)), Outcome::default());
    let mut random = Random(9);
    for number in 0..1000 {
        let mut frame = [2; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
        frame[20..24].copy_from_slice(&[0, 0, 64, 6]);
        frame[6..12].copy_from_slice(&random.next().to_be_bytes()[2..]);
        frame[26..30].copy_from_slice(&(random.next() as u32).to_be_bytes());
        frame[30..34].copy_from_slice(&(10 << 24 | random.next() as u32 >> 8).to_be_bytes());
        frame[34..38].copy_from_slice(&(random.next() as u32).to_be_bytes());
        cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
        let header = outcome.header(&outcome.deliveries[0].header);
        assert_eq!(
            (&header[26..40], header[22]),
            (&frame[26..40], 63),
            "its own addresses, its TTL less one"
        );
        assert_eq!(cache.counts().hits, number);
    }
}

/// UDP over IPv4 with this source port.
fn udp(port: u16) -> [u8; 60] {
    let mut frame = [2; 60];
    frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame[34..40].copy_from_slice(&[(port >> 8) as u8, port as u8, 0, 53, 0, 26]);
    frame
}

/// Flows for other frames, of which one bit is enough to tell, give no outcome to each port or address: a frame is looked up
/// under few masks, however the frames before it were chosen.
#[test]
fn ports_and_addresses_that_no_flow_has_share_outcomes() {
    let tables = without_groups(&[
        "priority=9,udp,tp_src=68,tp_dst=67 actions=output:4".to_owned(),
        "priority=8,udp,tp_dst=53 actions=output:4".to_owned(),
        "priority=7,ip,nw_dst=10.253.85.85 actions=output:4".to_owned(),
        "priority=6,tcp,tp_dst=443 actions=output:4".to_owned(),
        "priority=5,ip,nw_src=10.0.0.0/8 actions=output:2".to_owned(),
        "priority=1 actions=output:3".to_owned(),
    ]);
    let (mut cache, mut outcome) = (Cache::new(1024, &metadata(1)), Outcome::default());
    let (mut random, mut late) = (Random(9), (0, 0));
    for number in 0..20_000 {
        let mut frame = udp(0);
        let source = 10 << 24 | random.next() as u32 & 0xffff;
        frame[26..30].copy_from_slice(&source.to_be_bytes());
        frame[30..34].copy_from_slice(&[10, 0, 0, 2]);
        frame[34..38].copy_from_slice(&(random.next() as u32).to_be_bytes());
        let [source, target] = [34, 36].map(|at| u16::from_be_bytes([frame[at], frame[at + 1]]));
        let is_other = (source, target) == (68, 67) || target == 53 || frame[30..34] == [10, 253, 85, 85];
        let wanted = if is_other {
            4
        } else if frame[26] == 10 {
            2
        } else {
            3
        };
        if number == 10_000 {
            late = (cache.counts().hits, cache.counts().misses);
        }
        cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
        assert_eq!(outcome.deliveries[0].port, wanted, "{frame:02x?}");
    }
    let counts = cache.counts();
    let (hits, misses) = (counts.hits - late.0, counts.misses - late.1);
    assert!(misses * 4 < hits, "{misses} misses, {hits} hits");
    assert!(counts.masks <= flow_tables::MASKS as u64 * (counts.hits + counts.misses), "{counts:?}");
}

/// Frames that match none of several flows are told from those that match one, in a tuple of few flows and of many.
#[test]
fn frames_of_no_flow_are_told_from_those_of_each_flow() {
    for flows in [3, 20] {
        let mut all = vec!["priority=1 actions=output:3".to_owned()];
        all.extend((0..flows).map(|at| format!("priority=9,udp,tp_src={} actions=output:4", 1000 + 3 * at)));
        let tables = without_groups(&all);
        let (mut cache, mut outcome) = (Cache::new(1024, &metadata(1)), Outcome::default());
        let mut random = Random(3);
        for _ in 0..4000 {
            let port = 990 + frames::below(&mut random, 80) as u16;
            cache.execute(&tables, &mut HeaderWindow::new(&udp(port), 60, 1), &mut Ports, &mut outcome);
            let matches = (1000..1000 + 3 * flows).step_by(3).any(|of| of == port);
            assert_eq!(outcome.deliveries[0].port, if matches { 4 } else { 3 }, "{flows} flows, port {port}");
        }
        // 80 ports at most, and the mask of the first frame changes some times.
        assert!(cache.counts().hits > 3700, "{:?}", cache.counts());
    }
}

/// Connections in the same state share the outcomes of both segments, whatever their ports are.
#[test]
fn frames_of_many_connections_share_the_outcomes_of_segments() {
    let tables = without_groups(&[
        "ip actions=ct(table=1,zone=5)".to_owned(),
        "table=1,ip,ct_state=-trk actions=output:2".to_owned(),
    ]);
    let (mut cache, mut outcome) = (Cache::new(16, &metadata(1)), Outcome::default());
    for number in 0..1000 {
        let frame = udp(number);
        cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
        assert_eq!(outcome.deliveries.len(), 1);
    }
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses), (1998, 2));
    cache.flush(0);
    assert_eq!(tables.entries(1)[0].counters().get(), (1000, 60_000));
}

/// Frames of tunnels differ in their tunnel fields, also in those that no flow names: a tunnel gets all of them.
#[test]
fn frames_of_tunnels_have_the_outcomes_and_fields_of_their_tunnel() {
    let tables = without_groups(&[
        "tun_id=1 actions=output:2,output:4".to_owned(),
        "tun_id=2,ip actions=set_field:7->tun_metadata0,ct(table=1)".to_owned(),
        "table=1 actions=output:4".to_owned(),
    ]);
    let (mut cache, mut outcome) = (Cache::new(64, &metadata(1)), Outcome::default());
    let frame = udp(1);
    for round in 0..2 {
        for (key, source, ports) in [(1, 5, &[2, 4][..]), (1, 6, &[2, 4]), (2, 5, &[4]), (3, 5, &[])] {
            let mut tunnel = Key::ZERO;
            tunnel.set(Field::TunnelId, key);
            tunnel.set(Field::TunnelSrc, source);
            let before = cache.counts().misses;
            let mut window = HeaderWindow::new(&frame, 60, 1);
            cache.execute_of_tunnel(&tunnel.tunnel(), &tables, &mut window, &mut Ports, &mut outcome);
            let to: Vec<u16> = outcome.deliveries.iter().map(|delivery| delivery.port).collect();
            assert_eq!(to, ports, "key {key}");
            for delivery in &outcome.deliveries {
                let mut wanted = tunnel;
                wanted.set(Field::TunnelMetadata0, if key == 2 { 7 } else { 0 });
                assert_eq!(delivery.tunnel, (delivery.port == 4).then(|| wanted.tunnel()));
            }
            assert_eq!(cache.counts().misses == before, round == 1, "key {key}");
        }
    }
}

/// Two copies of a frame go on in two tables, with equal fields. Each has its own outcome.
#[test]
fn copies_that_go_on_in_different_tables_have_outcomes_of_their_own() {
    let tables = without_groups(&[
        "ip actions=ct(table=1),ct(table=2),set_queue:7,ct(table=1),output:4".to_owned(),
        "table=1 actions=output:1".to_owned(),
        "table=2 actions=output:2".to_owned(),
    ]);
    let (mut cache, mut outcome) = (Cache::new(64, &Key::ZERO), Outcome::default());
    for hits in [0, 4] {
        cache.execute(&tables, &mut HeaderWindow::new(&udp(1), 60, 1), &mut Ports, &mut outcome);
        let left: Vec<_> = outcome.deliveries.iter().map(|sent| (sent.port, sent.queue)).collect();
        assert_eq!(left, [(4, 7), (1, 0), (2, 0), (1, 7)]);
        assert_eq!(cache.counts().hits, hits);
    }
}

/// The stack and the action set go with the frame, which then passes the tables each time.
#[test]
fn a_frame_with_a_stack_or_an_action_set_is_not_kept_behind_ct() {
    let tables = without_groups(&[
        "ip actions=set_field:3->reg1,push:NXM_NX_REG1[],ct(table=1),pop:NXM_NX_REG2[],set_field:9->reg1"
            .to_owned(),
        "ipv6 actions=write_actions(output:4),goto_table:2".to_owned(),
        "table=1 actions=pop:NXM_NX_REG4[],output:NXM_NX_REG4[]".to_owned(),
        "table=2,ipv6 actions=ct(table=3)".to_owned(),
        "table=3 actions=output:1".to_owned(),
    ]);
    let (mut cache, mut outcome) = (Cache::new(16, &Key::ZERO), Outcome::default());
    let mut ipv6 = [2; 60];
    ipv6[12..21].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17]);
    for (frame, ports) in [(udp(1), vec![3]), (ipv6, vec![4, 1, 4])] {
        for _ in 0..2 {
            cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
            let left: Vec<_> = outcome.deliveries.iter().map(|sent| sent.port).collect();
            assert_eq!(left, ports);
        }
    }
    assert_eq!((cache.counts().hits, cache.counts().misses), (0, 8));
}

/// A meter with few tokens, and the same frames with and without the cache: the same ones pass, and all flows count the
/// same, also those of frames that the meter drops.
#[test]
fn frames_pass_a_meter_from_the_cache_until_it_drops_them() {
    let flows = [
        "ip actions=meter:1,set_field:1->reg1,resubmit(,1),output:2".to_owned(),
        "table=1,ip actions=clone(dec_ttl,resubmit(,2),output:3),output:4".to_owned(),
        "table=2 actions=meter:2,output:2".to_owned(),
    ];
    let both = [(); 2].map(|()| {
        let mut tables = without_groups(&flows);
        for text in [
            "meter=1 pktps burst bands=type=drop rate=1 burst_size=30",
            "meter=2 pktps burst bands=type=drop rate=1 burst_size=12",
        ] {
            tables.set_meter(flow::Meter::parse(text).unwrap(), 0).unwrap();
        }
        tables
    });
    let (mut cache, mut outcomes) = (Cache::new(16, &metadata(1)), [Outcome::default(), Outcome::default()]);
    let mut ports = Vec::new();
    for number in 0..40 {
        let frame = udp(number);
        cache.execute(&both[0], &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcomes[0]);
        both[1].execute(&frame, 60, &metadata(1), &mut Ports, &mut outcomes[1]);
        assert_eq!(shown(&outcomes[0]), shown(&outcomes[1]), "frame {number}");
        outcomes[1].hits.iter().for_each(|entry| entry.count(60, 0));
        ports.push(outcomes[0].deliveries.iter().map(|sent| sent.port).collect::<Vec<_>>());
    }
    assert_eq!(
        (&ports[11], &ports[12], &ports[29], ports[30].len()),
        (&vec![2, 3, 4, 2], &vec![4, 2], &vec![4, 2], 0)
    );
    // The frames that a meter drops pass the tables.
    assert_eq!((cache.counts().hits, cache.counts().misses), (11, 1 + 18 + 10));
    cache.flush(0);
    assert_eq!(counts(&both[0]), counts(&both[1]));
}

/// The outcome of a frame that is larger or smaller is not that of the last one.
#[test]
fn the_length_of_a_frame_decides_although_its_fields_are_kept() {
    let tables = without_groups(&[
        "ip actions=check_pkt_larger(70)->NXM_NX_REG1[0],resubmit(,1)".to_owned(),
        "table=1,reg1=0/1 actions=output:2".to_owned(),
        "table=1,reg1=1/1 actions=output:3".to_owned(),
    ]);
    let (mut cache, mut outcome) = (Cache::new(16, &metadata(1)), Outcome::default());
    let mut sent = |bytes: usize| {
        let mut frame = udp(1).to_vec();
        frame.resize(bytes, 0);
        frame[16..18].copy_from_slice(&(bytes as u16 - 14).to_be_bytes());
        cache.execute(&tables, &mut HeaderWindow::new(&frame, bytes, 1), &mut Ports, &mut outcome);
        assert_eq!(outcome.deliveries.len(), 1);
        outcome.deliveries[0].port
    };
    assert_eq!([60, 70, 71, 90, 60, 60].map(&mut sent), [2, 2, 3, 3, 2, 2]);
    assert_eq!(cache.counts().hits, 3);
    cache.flush(0);
    let counted = tables.entries(1).iter().map(|entry| entry.counters().get()).collect::<Vec<_>>();
    assert_eq!(counted.iter().map(|(frames, _)| frames).sum::<u64>(), 6);
}

/// Connection tracking that translates the destination of each frame with an odd source port, and counts its frames.
struct Translating {
    tracked: usize,
}

impl flow_tables::Surroundings for Translating {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        &[1, 2, 3, 4]
    }

    fn is_live(&self, _: u16) -> bool {
        true
    }

    fn track(&mut self, _: &flow_tables::Track, window: &mut HeaderWindow) -> flow_tables::Connection {
        self.tracked += 1;
        let mut key = *window.held();
        if key.get(Field::UdpSrc) & 1 == 1 {
            key.set(Field::IpDst, 0x0a00_0009);
            window.write(&key);
        }
        flow_tables::Connection::default()
    }

    fn learn(&mut self, _: &std::sync::Arc<flow::Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &flow::Controller) -> bool {
        true
    }
}

/// OVN's `ct(commit,nat(src)),resubmit(,N)`: frames with the same compared fields share an outcome as long as they are
/// translated alike. Each frame is tracked once, also if the kept outcome is not its own.
#[test]
fn a_translation_without_a_table_decides_about_the_actions_behind_it() {
    let flows = [
        "ip actions=clone(ct(commit,zone=1,nat(src)),output:4),ct(commit,zone=1,nat(src)),dec_ttl,resubmit(,1)".to_owned(),
        "table=1,ip,nw_dst=10.0.0.9 actions=output:2".to_owned(),
        "table=1,ip actions=output:3".to_owned(),
    ];
    let both = [(); 2].map(|()| without_groups(&flows));
    let (mut cache, mut outcomes) = (Cache::new(16, &metadata(1)), [Outcome::default(), Outcome::default()]);
    let mut around = [Translating { tracked: 0 }, Translating { tracked: 0 }];
    for (number, port) in [2, 4, 6, 1, 3, 5, 8, 10, 12].into_iter().enumerate() {
        let frame = udp(port);
        let [one, other] = &mut around;
        cache.execute(&both[0], &mut HeaderWindow::new(&frame, 60, 1), one, &mut outcomes[0]);
        both[1].execute(&frame, 60, &metadata(1), other, &mut outcomes[1]);
        assert_eq!(shown(&outcomes[0]), shown(&outcomes[1]), "source port {port}");
        outcomes[1].hits.iter().for_each(|entry| entry.count(60, 0));
        let to: Vec<u16> = outcomes[0].deliveries.iter().map(|sent| sent.port).collect();
        assert_eq!(to, [4, if port & 1 == 1 { 2 } else { 3 }]);
        assert_eq!(around[0].tracked, 2 * (number + 1));
    }
    assert_eq!((cache.counts().hits, cache.counts().misses), (6, 3));
    cache.flush(0);
    assert_eq!(counts(&both[0]), counts(&both[1]));
}
