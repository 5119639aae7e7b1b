//! What a controller, a group or a peer can make tables hold is limited, and what is freed can be used again.
mod ports;

use std::sync::Arc;

use flow::{Action, Bucket, Flow, Group, Key};
use flow_tables::{
    Cache, Change, HeaderWindow, Limits, MAX_DELIVERIES, MAX_STEPS, Outcome, Overrun, Refused, Tables,
    Uncached,
};
use ports::Ports;

const FRAME: [u8; 60] = [2; 60];

fn flow(text: &str) -> Flow {
    Flow::parse(text).unwrap()
}

fn add(tables: &mut Tables, text: &str) -> Result<(), Refused> {
    tables.change(Change::Add(flow(text)), 0)
}

fn full(what: &'static str, limit: usize) -> Refused {
    Refused::Full { what, limit }
}

#[test]
fn flows_beyond_the_limit_are_refused_and_replacing_one_is_not() {
    let mut tables = Tables::new(1, 1, Limits { flows: 2, ..Limits::default() });
    add(&mut tables, "priority=1 actions=drop").unwrap();
    add(&mut tables, "table=7,priority=2 actions=conjunction(1,1/2)").unwrap();
    assert_eq!(add(&mut tables, "priority=3 actions=drop"), Err(full("flows", 2)));
    add(&mut tables, "table=7,priority=2 actions=output:1").unwrap();
    assert_eq!(tables.flows(), 2);
    let changes =
        vec![Change::Add(flow("priority=1 actions=output:1")), Change::Add(flow("ip actions=drop"))];
    assert_eq!(tables.change_all(changes, 0), Err(full("flows", 2)));
    assert_eq!(tables.entries(0)[0].flow.actions, []);
    let wanted = flow("actions=drop").wanted;
    tables.change(Change::Delete { table: None, priority: 0, wanted, strict: false }, 0).unwrap();
    assert_eq!(tables.flows(), 0);
    add(&mut tables, "priority=3 actions=drop").unwrap();
}

#[test]
fn groups_and_their_buckets_are_limited() {
    let mut tables = Tables::new(1, 1, Limits { groups: 1, buckets: 2, ..Limits::default() });
    let group =
        |id: u32, buckets: usize| Group { id, buckets: vec![Bucket::default(); buckets], ..Group::default() };
    assert_eq!(tables.set_group(group(1, 3)), Err(full("buckets of a group", 2)));
    tables.set_group(group(1, 2)).unwrap();
    assert_eq!(tables.set_group(group(2, 1)), Err(full("groups", 1)));
    tables.set_group(group(1, 1)).unwrap();
    tables.delete_group(1);
    tables.set_group(group(2, 1)).unwrap();
}

/// Flows that a peer's frames make are those of a port: another port's room is its own.
#[test]
fn flows_that_one_port_learns_leave_the_others_theirs() {
    let mut tables = Tables::new(1, 1, Limits { learned: 3, ..Limits::default() });
    let actions = flow("actions=learn(table=4,idle_timeout=10,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])").actions;
    let [Action::Learn(learn)] = actions.as_slice() else { panic!("{actions:?}") };
    let learned = |address: u8| {
        flow(&format!("table=4,idle_timeout=10,dl_dst=02:00:00:00:00:{address:02x} actions=drop"))
    };
    for address in 0..3 {
        assert_eq!(tables.learn(learned(address), learn, 1, 0), Ok(true));
    }
    let refused = Err(full("flows learned from one port", 3));
    assert_eq!(tables.learn(learned(3), learn, 1, 0), refused);
    // One that it has is refreshed.
    assert_eq!(tables.learn(learned(0), learn, 1, 5_000), Ok(true));
    assert_eq!(tables.learn(learned(9), learn, 2, 0), Ok(true));
    // The flow of another port is not taken over beyond the limit.
    assert_eq!(tables.learn(learned(9), learn, 1, 0), refused);
    assert_eq!(tables.flows(), 4);
    assert_eq!(tables.expire(10_000).len(), 3);
    assert_eq!(tables.learn(learned(7), learn, 1, 10_000), Ok(true));
    assert_eq!(tables.flows(), 2);
}

/// The limit of the action counts flows of its cookie in its table.
#[test]
fn a_limit_of_learn_counts_flows_of_its_cookie() {
    let mut tables = Tables::new(1, 1, Limits::default());
    let actions = flow("actions=learn(table=4,cookie=7,limit=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])").actions;
    let [Action::Learn(learn)] = actions.as_slice() else { panic!("{actions:?}") };
    let learned = |cookie: u64, address: u8| {
        flow(&format!("cookie={cookie},table=4,dl_dst=02:00:00:00:00:{address:02x} actions=drop"))
    };
    tables.change(Change::Add(learned(1, 9)), 0).unwrap();
    assert_eq!(tables.learn(learned(7, 1), learn, 1, 0), Ok(true));
    assert_eq!(tables.learn(learned(7, 2), learn, 1, 0), Ok(false));
    assert_eq!(tables.learn(learned(7, 1), learn, 1, 0), Ok(true));
    assert_eq!(tables.entries(4).len(), 2);
}

/// Many ports learn: flows of controllers have room all the same.
#[test]
fn flows_that_all_ports_learn_leave_room_for_those_of_controllers() {
    let mut tables = Tables::new(1, 1, Limits { flows: 20, learned: 4, ..Limits::default() });
    let actions = flow("actions=learn(table=4,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])").actions;
    let [Action::Learn(learn)] = actions.as_slice() else { panic!("{actions:?}") };
    let learned = |n: u16| flow(&format!("table=4,dl_dst=02:00:00:00:00:{n:02x} actions=drop"));
    let taken: Vec<_> = (0..20).map(|n| tables.learn(learned(n), learn, n / 4, 0)).collect();
    let refused = Err(full("flows learned from all ports", 10));
    assert_eq!(
        (taken[9].clone(), taken[10].clone(), taken[19].clone()),
        (Ok(true), refused.clone(), refused)
    );
    assert_eq!(tables.learn(learned(0), learn, 0, 0), Ok(true), "one that is there");
    for n in 0..10 {
        add(&mut tables, &format!("priority={n} actions=drop")).unwrap();
    }
}

/// Frames ask for flows beyond the limit of `learn` without end. With a look at all flows for each of them, the test does
/// not end within its time limit.
#[test]
fn a_limit_of_learn_costs_no_look_at_all_flows() {
    let mut tables = Tables::new(1, 1, Limits::default());
    let actions = flow("actions=learn(table=4,cookie=7,limit=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])").actions;
    let [Action::Learn(learn)] = actions.as_slice() else { panic!("{actions:?}") };
    let with = |cookie: u64, n: u32| {
        let wanted = flow::Match::parse(&format!("reg0={n}")).unwrap();
        Flow { table: 4, cookie, wanted, ..Flow::default() }
    };
    for n in 0..30_000 {
        tables.change(Change::Add(with(1, n)), 0).unwrap();
    }
    assert_eq!(tables.learn(with(7, 100_000), learn, 1, 0), Ok(true));
    tables.change(Change::Add(with(7, 100_001)), 0).unwrap();
    let more = with(7, 100_002);
    for _ in 0..100_000 {
        assert_eq!(tables.learn(more.clone(), learn, 1, 0), Ok(false));
    }
    // A flow of the cookie goes, another becomes one of another cookie.
    let delete =
        |n| Change::Delete { table: Some(4), priority: 32768, wanted: with(0, n).wanted, strict: true };
    tables.change(delete(100_000), 0).unwrap();
    tables.change(Change::Add(with(8, 100_001)), 0).unwrap();
    for n in 100_002..100_004 {
        assert_eq!(tables.learn(with(7, n), learn, 1, 0), Ok(true));
    }
    assert_eq!(tables.learn(with(7, 100_004), learn, 1, 0), Ok(false));
}

fn execute(tables: &Tables, cache: &mut Cache) -> Outcome {
    let mut outcome = Outcome::default();
    cache.execute(tables, &mut HeaderWindow::new(&FRAME, FRAME.len(), 1), &mut Ports, &mut outcome);
    outcome
}

#[test]
fn copies_of_a_frame_are_limited_and_the_frame_is_dropped_whole() {
    let flows = |copies: usize| {
        let mut tables = Tables::new(1, 1, Limits::default());
        let outputs = vec!["output:1"; copies / 64].join(",");
        add(&mut tables, &format!("table=1 actions={outputs}")).unwrap();
        add(&mut tables, &format!("actions={}", vec!["resubmit(,1)"; 64].join(","))).unwrap();
        tables
    };
    let (mut cache, tables) = (Cache::new(4, &Key::ZERO), flows(MAX_DELIVERIES));
    let outcome = execute(&tables, &mut cache);
    assert_eq!((outcome.overrun, outcome.deliveries.len()), (None, MAX_DELIVERIES));
    // A place of the cache holds no such outcome.
    assert_eq!(outcome.uncached, Some(Uncached::Long));
    execute(&tables, &mut cache);
    assert_eq!(cache.counts().hits, 0);
    let outcome = execute(&flows(MAX_DELIVERIES + 64), &mut cache);
    assert_eq!((outcome.overrun, outcome.deliveries.len()), (Some(Overrun::Deliveries), 0));
    let (mut cache, tables) = (Cache::new(4, &Key::ZERO), flows(MAX_STEPS));
    for hits in [0, 1] {
        assert_eq!(execute(&tables, &mut cache).deliveries.len(), MAX_STEPS);
        assert_eq!(cache.counts().hits, hits);
    }
}

/// Masks of single bits, so that eight flows share a tuple at most.
#[test]
fn different_masks_are_limited_in_each_table() {
    let mut tables = Tables::new(0, 7, Limits { tuples: 4, ..Limits::default() });
    let of = |table: u8, bit: u32| format!("table={table},reg0={0:#x}/{0:#x} actions=drop", 1_u32 << bit);
    let refused = (0..32).find_map(|bit| add(&mut tables, &of(0, bit)).err());
    assert_eq!(refused, Some(full("groups of masks in a table", 4)));
    assert_eq!(tables.tuples(0), 4);
    add(&mut tables, &of(0, 0)).unwrap();
    add(&mut tables, &of(1, 31)).unwrap();
    tables
        .entries(0)
        .into_iter()
        .map(Arc::clone)
        .collect::<Vec<_>>()
        .iter()
        .for_each(|entry| tables.remove(entry));
    add(&mut tables, &of(0, 31)).unwrap();
}

/// Flows that differ in their priority alone, and flows that are removed best first: each change finds its flow without
/// a look at the others. With such a look the test does not end within its time limit.
#[test]
fn the_time_of_a_change_does_not_grow_with_the_flows() {
    let mut tables = Tables::new(0, 7, Limits::default());
    for priority in 0..=u16::MAX {
        add(&mut tables, &format!("priority={priority},udp actions=drop")).unwrap();
        add(&mut tables, &format!("priority={priority},tcp,tp_dst={priority} actions=drop")).unwrap();
    }
    assert_eq!(tables.flows(), 2 * 65_536);
    let flows: Vec<_> = tables.entries(0).into_iter().map(Arc::clone).collect();
    for entry in flows {
        tables.remove(&entry);
    }
    assert_eq!(tables.flows(), 0);
}

/// With and without the cache, all segments of a frame together have the visits to tables of one frame, and few wait. With
/// visits for each segment, the test does not end within its time limit.
#[test]
fn segments_behind_ct_share_the_visits_of_their_frame() {
    let mut frame = [2; 60];
    frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    let list = |action: &str, times: usize| vec![action; times].join(",");
    let copies = |times| format!("ip actions=output:1,{}", list("ct(table=1)", times));
    let visits = |times| {
        [format!("table=1 actions={}", list("resubmit(,2)", times)), "table=2 actions=drop".to_owned()]
    };
    let cases = [
        // Flows, whether the frame is dropped, and the flows that it matches.
        (copies(32), visits(128), false, 1 + 32 * 129),
        (copies(32), visits(129), true, 1 + 31 * 130 + 1 + 4096 - 31 * 129),
        (copies(256), visits(1), false, 1 + 256 * 2),
        (copies(257), visits(1), true, 1),
        (copies(200), visits(4000), true, 1 + 4001 + 1 + 96),
    ];
    for (first, others, is_dropped, matched) in cases {
        let mut tables = Tables::new(1, 1, Limits::default());
        add(&mut tables, &first).unwrap();
        others.iter().for_each(|flow| add(&mut tables, flow).unwrap());
        let (mut cache, mut outcome) = (Cache::new(4, &Key::ZERO), Outcome::default());
        for times in 1..4 {
            cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
            assert_eq!(outcome.overrun, is_dropped.then_some(Overrun::Resubmits), "{matched}");
            assert_eq!(outcome.deliveries.len(), usize::from(!is_dropped));
            cache.flush(0);
            let counted = (0..3).flat_map(|table| tables.entries(table));
            assert_eq!(counted.map(|entry| entry.counters().get().0).sum::<u64>(), times * matched);
        }
        tables.execute(&frame, 60, &Key::ZERO, &mut Ports, &mut outcome);
        assert_eq!((outcome.overrun.is_some(), outcome.hits.len() as u64), (is_dropped, matched));
    }
}

/// With and without the cache, a frame that is tracked again and again, or in too many copies, is dropped whole.
#[test]
fn segments_behind_ct_are_limited_and_the_frame_is_dropped_whole() {
    let mut frame = [2; 60];
    frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    let copies = |table: u8| vec![format!("ct(table={table})"); 64].join(",");
    let copied = [
        format!("ip actions=output:1,{}", copies(1)),
        format!("table=1,ip actions={}", copies(2)),
        "table=2 actions=output:2".to_owned(),
    ];
    let looped = ["ip actions=output:1,ct(table=0)".to_owned()];
    for (flows, why, passed) in [(&copied[..], Overrun::Resubmits, 4097), (&looped[..], Overrun::Depth, 65)] {
        let mut tables = Tables::new(1, 1, Limits::default());
        flows.iter().for_each(|flow| add(&mut tables, flow).unwrap());
        let (mut cache, mut outcome) = (Cache::new(4, &Key::ZERO), Outcome::default());
        for times in 1..4 {
            cache.execute(&tables, &mut HeaderWindow::new(&frame, 60, 1), &mut Ports, &mut outcome);
            assert_eq!((outcome.overrun, outcome.deliveries.len()), (Some(why), 0));
            cache.flush(0);
            let counted = (0..3).flat_map(|table| tables.entries(table));
            assert_eq!(counted.map(|entry| entry.counters().get().0).sum::<u64>(), times * passed);
        }
        tables.execute(&frame, 60, &Key::ZERO, &mut Ports, &mut outcome);
        assert_eq!((outcome.overrun, outcome.hits.len() as u64), (Some(why), passed));
    }
}
