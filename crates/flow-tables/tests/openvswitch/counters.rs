//! Counters of flows that are added again or modified, and of tables.
use flow::Flow;
use flow_tables::{Change, Limits, Tables};

use super::expected;
use super::peer::Peer;

/// Commands of `ovs-ofctl`, and what the flow has counted after two more frames, of 60 and of 80 bytes.
const STEPS: [(&str, &str, (u64, u64)); 7] = [
    ("add-flow", "priority=5,dl_src=02:02:02:02:02:02 actions=output:2", (2, 140)),
    ("add-flow", "priority=5,dl_src=02:02:02:02:02:02 actions=drop", (4, 280)),
    ("add-flow", "priority=5,dl_src=02:02:02:02:02:02,reset_counts actions=output:2", (2, 140)),
    ("add-flow", "priority=5,dl_src=02:02:02:02:02:02 actions=drop", (4, 280)),
    ("mod-flows", "dl_src=02:02:02:02:02:02 actions=output:2", (6, 420)),
    ("mod-flows", "dl_src=02:02:02:02:02:02,reset_counts actions=drop", (2, 140)),
    ("mod-flows", "dl_src=02:02:02:02:02:02 actions=output:2", (4, 280)),
];

#[test]
fn flows_that_are_changed_go_on_counting_as_in_openvswitch() {
    let mut peer = Peer::without_groups(2);
    peer.set_flows(&[]);
    let mut tables = Tables::new(1, 7, Limits::default());
    let frames = [vec![2; 60], vec![2; 80]];
    for (command, text, counts) in STEPS {
        let flow = Flow::parse(text).unwrap();
        let change = if command == "add-flow" { Change::Add(flow) } else { Change::Modify(flow, false) };
        tables.change(change, 0).unwrap();
        peer.ofctl(command, text);
        expected(&tables, 1, &frames);
        peer.send(1, &frames);
        let theirs = peer.counters().into_iter().find(|(flow, ..)| flow.contains("dl_src"));
        let theirs = theirs.map(|(_, packets, bytes)| (packets, bytes));
        assert_eq!(
            (tables.entries(0)[0].counters().get(), theirs),
            (counts, Some(counts)),
            "{command} {text}"
        );
    }
}

/// Look-ups and matches of a table in Open vSwitch.
fn counted(dump: &str, table: u8) -> (u64, u64) {
    let (_, behind) =
        dump.split_once(&format!("table {table}:")).unwrap_or_else(|| panic!("{table}: {dump}"));
    let of = |name: &str| {
        let (_, rest) = behind.split_once(name).unwrap();
        rest.split([',', '\n']).next().unwrap().trim().parse().unwrap()
    };
    (of("lookup="), of("matched="))
}

#[test]
fn tables_count_look_ups_and_matches_as_openvswitch() {
    const FLOWS: [&str; 3] = [
        "priority=5,dl_src=02:02:02:02:02:02 actions=resubmit(,1),resubmit(,1),resubmit(,2),output:2",
        "table=1,priority=5,dl_dst=02:02:02:02:02:02 actions=output:2",
        "table=2,priority=5,dl_dst=03:03:03:03:03:03 actions=output:2",
    ];
    let mut peer = Peer::without_groups(2);
    peer.set_flows(&FLOWS.map(str::to_owned));
    let mut tables = Tables::new(1, 7, Limits::default());
    FLOWS.iter().for_each(|text| tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap());
    let frames = [vec![2; 60], vec![2; 80], vec![2; 60], vec![3; 60], vec![3; 80]];
    expected(&tables, 1, &frames);
    peer.send(1, &frames);
    let dump = peer.dump_tables();
    for (table, counts) in [(0, (5, 3)), (1, (6, 6)), (2, (3, 0))] {
        let (looked_up, matched) = counted(&dump, table);
        // The frame that ends a burst there.
        let mark = u64::from(table == 0);
        assert_eq!((tables.visits(table), (looked_up - mark, matched - mark)), (counts, counts), "{dump}");
    }
}
