//! Limits, copies that wait, and changes of tables.
mod ports;

use flow::{Action, Field, Flow, Key};
use flow_tables::{
    Cache, Change, Continuation, Effect, HeaderWindow, Limits, Outcome, Overrun, Refused, Tables,
};
use ports::Ports;

const FRAME: [u8; 60] = {
    let mut frame = [2; 60];
    (frame[12], frame[13]) = (0x88, 0xcc);
    frame
};

fn tables(flows: &[&str]) -> Tables {
    let mut tables = Tables::new(1, 1, Limits::default());
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

fn execute(tables: &Tables) -> Outcome {
    let mut outcome = Outcome::default();
    tables.execute(&FRAME, FRAME.len(), &Key::ZERO, &mut Ports, &mut outcome);
    outcome
}

fn ports_of(outcome: &Outcome) -> Vec<u16> {
    outcome.deliveries.iter().map(|delivery| delivery.port).collect()
}

/// Open vSwitch drops such frames whole: `over max translation depth 64`, `over 4096 resubmit actions`.
#[test]
fn visits_to_tables_are_limited_and_the_frame_is_dropped_whole() {
    let outcome = execute(&tables(&["actions=output:1,resubmit(,0)"]));
    assert_eq!((outcome.overrun, ports_of(&outcome)), (Some(Overrun::Depth), vec![]));
    assert_eq!(outcome.hits.len(), 65);
    // 64 visits to table 1, each with 63 to table 2: the limit of visits, and then one more.
    let visits = |table: u32, times: usize| vec![format!("resubmit(,{table})"); times].join(",");
    let flows = |more: &str| {
        let outer = format!("actions={}{more}", visits(1, 64));
        tables(&[&outer, &format!("table=1 actions={}", visits(2, 63)), "table=2 actions=output:1"])
    };
    let outcome = execute(&flows(""));
    assert_eq!((outcome.overrun, outcome.hits.len(), outcome.deliveries.len()), (None, 4097, 4032));
    let outcome = execute(&flows(",resubmit(,3)"));
    assert_eq!((outcome.overrun, outcome.deliveries.len()), (Some(Overrun::Resubmits), 0));
}

/// A frame of OVN visits some 40 tables in each logical switch and router that it passes.
#[test]
fn visits_one_after_the_other_are_no_nested_lists() {
    let mut flows: Vec<String> =
        (0..120).map(|table| format!("table={table} actions=resubmit(,{})", table + 1)).collect();
    for round in 0..9 {
        flows.push(format!("table=120,reg0={round} actions=set_field:{}->reg0,resubmit(,1)", round + 1));
    }
    flows.push("table=120,reg0=9 actions=output:1".to_owned());
    let outcome = execute(&tables(&flows.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!((outcome.overrun, outcome.hits.len(), ports_of(&outcome)), (None, 1201, vec![1]));
}

#[test]
fn a_frame_that_waited_goes_on_as_if_it_had_not() {
    let flows = |pause: &str| {
        let outer = "actions=push:NXM_NX_REG1[],clone(set_field:7->reg1,resubmit(,1),output:NXM_NX_REG1[]),pop:NXM_NX_REG2[],output:4";
        let inner = format!("table=1 actions=set_field:3->reg2{pause},output:NXM_NX_REG2[]");
        tables(&[outer, &inner])
    };
    assert_eq!(ports_of(&execute(&flows(""))), [3, 7, 4]);
    let tables = flows(",controller(pause)");
    let first = execute(&tables);
    assert_eq!(ports_of(&first), [], "a pause in a copy ends the lists around it");
    let [Effect::PacketIn(packet)] = first.effects.as_slice() else { panic!("{:?}", first.effects) };
    assert_eq!((packet.table, packet.key.get(Field::Reg2)), (1, 3));
    let rest = packet.continuation.clone().unwrap();
    let mut outcome = Outcome::default();
    tables.resume(first.header(&packet.header), FRAME.len(), &packet.key, *rest, &mut Ports, &mut outcome);
    assert_eq!(ports_of(&outcome), [3, 7]);
}

/// Open vSwitch ends the whole translation with an `exit` in a copy; the end of a copy's list ends that list alone.
#[test]
fn an_exit_in_a_copy_ends_the_lists_around_it() {
    let ports = |inner: &str| {
        let outer = format!("actions=output:1,resubmit(,1),clone(output:2,{inner},output:3),output:4");
        ports_of(&execute(&tables(&[&outer, "table=1 actions=output:5", "table=2 actions=exit"])))
    };
    assert_eq!(ports("resubmit(,1)"), [1, 5, 2, 5, 3, 4]);
    assert_eq!(ports("exit"), [1, 5, 2]);
    assert_eq!(ports("resubmit(,2)"), [1, 5, 2]);
    assert_eq!(ports("clone(exit)"), [1, 5, 2]);
}

/// A meter drops the copy that it measures, and no other.
#[test]
fn a_meter_in_a_copy_ends_the_lists_of_the_copy() {
    let flows = ["actions=clone(resubmit(,1),output:3),output:4", "table=1 actions=meter:1,output:2"];
    let mut tables = tables(&flows);
    let meter = flow::Meter::parse("meter=1,pktps,burst,bands=type=drop,rate=1,burst_size=1").unwrap();
    tables.set_meter(meter, 0).unwrap();
    assert_eq!(ports_of(&execute(&tables)), [2, 3, 4]);
    assert_eq!(ports_of(&execute(&tables)), [4]);
}

#[test]
fn a_controllers_own_actions_have_no_flows_cookie() {
    let tables = tables(&["cookie=5,actions=controller"]);
    let actions = Flow::parse("actions=controller,resubmit(,0)").unwrap().actions;
    let (rest, mut outcome) =
        (Continuation { rest: vec![(0, actions)], ..Continuation::default() }, Outcome::default());
    tables.resume(&FRAME, FRAME.len(), &Key::ZERO, rest, &mut Ports, &mut outcome);
    let cookie = |effect: &Effect| match effect {
        Effect::PacketIn(packet) => packet.cookie,
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome.effects.iter().map(cookie).collect::<Vec<_>>(), [u64::MAX, 5]);
}

#[test]
fn all_changes_of_a_bundle_are_made_or_none() {
    let mut tables = tables(&["table=1,priority=5,ip actions=output:1"]);
    let add = |text: &str| Change::Add(Flow::parse(text).unwrap());
    let overlapping = add("table=1,priority=5,in_port=3,check_overlap actions=drop");
    let refused = tables.change_all(vec![add("table=2 actions=drop"), overlapping], 0);
    assert!(matches!(refused, Err(Refused::Overlap(flow)) if flow.priority == 5));
    assert!(tables.entries(2).is_empty());
    tables
        .change_all(
            vec![add("table=2 actions=drop"), add("table=1,priority=6,in_port=3,check_overlap actions=drop")],
            0,
        )
        .unwrap();
    assert_eq!((tables.entries(1).len(), tables.entries(2).len()), (2, 1));
}

#[test]
fn flows_are_modified_and_deleted_loosely_and_strictly() {
    let mut tables = tables(&[
        "priority=5,ip actions=output:1",
        "priority=5,tcp actions=output:1",
        "priority=6,tcp actions=output:1",
        "arp actions=output:1",
    ]);
    let shown =
        |tables: &Tables| tables.entries(0).iter().map(|entry| entry.flow.to_string()).collect::<Vec<_>>();
    tables.entries(0)[0].count(60, 0);
    let flow = |text: &str| Flow::parse(text).unwrap();
    tables.change(Change::Modify(flow("priority=6,tcp actions=output:2"), true), 0).unwrap();
    tables.change(Change::Modify(flow("arp actions=output:3"), false), 0).unwrap();
    assert_eq!(
        shown(&tables),
        [
            "arp actions=output:3",
            "priority=6,tcp actions=output:2",
            "priority=5,ip actions=output:1",
            "priority=5,tcp actions=output:1"
        ]
    );
    assert_eq!(tables.entries(0)[0].counters().get(), (1, 60));
    let delete = |text: &str, strict: bool| {
        let flow = flow(text);
        Change::Delete { table: Some(0), priority: flow.priority, wanted: flow.wanted, strict }
    };
    tables.change(delete("priority=5,ip actions=drop", true), 0).unwrap();
    assert_eq!(tables.entries(0).len(), 3);
    tables.change(delete("ip actions=drop", false), 0).unwrap();
    assert_eq!(shown(&tables), ["arp actions=output:3"]);
}

#[test]
fn flows_end_by_their_idle_and_hard_times_alone() {
    let mut tables =
        tables(&["priority=1,idle_timeout=10 actions=drop", "priority=2,hard_timeout=15 actions=drop"]);
    let ended = |tables: &mut Tables, now_ms: u64| {
        tables.expire(now_ms).iter().map(|entry| entry.flow.priority).collect::<Vec<_>>()
    };
    assert_eq!(ended(&mut tables, 9_999), []);
    tables.entries(0).iter().for_each(|entry| entry.count(60, 9_999));
    assert_eq!(ended(&mut tables, 14_999), []);
    assert_eq!(ended(&mut tables, 15_000), [2]);
    assert_eq!(ended(&mut tables, 19_998), []);
    assert_eq!(ended(&mut tables, 19_999), [1]);
}

/// A TCP frame with these flags.
fn tcp(flags: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    (frame[17], frame[22], frame[23]) = (46, 64, 6);
    (frame[46], frame[47]) = (5 << 4, flags);
    frame
}

/// The outcome that is kept of frames within a connection is none for the frame that ends it.
#[test]
fn a_flow_whose_connection_ends_has_shorter_times() {
    const FIN: u8 = 1;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    let flow = "idle_timeout=60, tcp actions=fin_timeout(idle_timeout=5,hard_timeout=30),output:1";
    assert_eq!(Flow::parse(flow).unwrap().to_string(), flow);
    for last in [FIN | ACK, RST] {
        let mut tables = tables(&[flow]);
        let (mut cache, mut outcome) = (Cache::new(16, &Key::ZERO), Outcome::default());
        let mut execute = |tables: &Tables, flags: u8| {
            let before = cache.counts().hits;
            let mut window = HeaderWindow::new(&tcp(flags), 60, 1);
            cache.execute(tables, &mut window, &mut Ports, &mut outcome);
            (ports_of(&outcome), cache.counts().hits - before)
        };
        assert_eq!([ACK, ACK].map(|flags| execute(&tables, flags)), [(vec![1], 0), (vec![1], 1)]);
        assert_eq!((tables.expire(30_001).len(), tables.is_timed()), (0, true));
        assert_eq!([last, last].map(|flags| execute(&tables, flags)), [(vec![1], 0), (vec![1], 0)]);
        assert_eq!(tables.entries(0)[0].timeouts(), flow::Timeouts { idle: 5, hard: 30 });
        tables.entries(0)[0].count(60, 1_000);
        assert_eq!(tables.expire(5_999).len(), 0);
        assert_eq!(tables.expire(6_000).len(), 1);
    }
    assert!(Flow::parse("udp actions=fin_timeout(idle_timeout=5)").is_err());
}

#[test]
fn a_learned_flow_ends_with_its_connection() {
    let learn = "learn(table=1,idle_timeout=60,fin_idle_timeout=5,dl_type=0x800,nw_proto=6,\
                 NXM_OF_IP_SRC[],output:NXM_OF_IN_PORT[])";
    let flow = Flow::parse(&format!("tcp actions={learn}")).unwrap();
    let [Action::Learn(learn)] = &flow.actions[..] else { panic!("{flow}") };
    let mut key = Key::ZERO;
    key.set(Field::InPort, 3);
    let learned = flow_tables::learned(learn, &key);
    assert!(learned.to_string().contains("actions=fin_timeout(idle_timeout=5),output:3"), "{learned}");
    let mut tables = tables(&["actions=resubmit(,1)"]);
    assert_eq!(tables.learn(learned.clone(), learn, 1, 0), Ok(true));
    tables.execute(&tcp(1), 60, &Key::ZERO, &mut Ports, &mut Outcome::default());
    assert_eq!(tables.expire(4_999).len(), 0);
    // A connection that begins anew learns the flow again, with all of its time.
    assert_eq!(tables.learn(learned, learn, 1, 5_000), Ok(true));
    assert_eq!((tables.expire(64_999).len(), tables.expire(65_000).len()), (0, 1));
}

/// As in Open vSwitch. The time since a flow was added goes on (OpenFlow 1.5 §6.4).
#[test]
fn a_hard_time_begins_anew_when_a_flow_is_modified() {
    let mut tables = tables(&["hard_timeout=15 actions=drop"]);
    let flow = Flow::parse("actions=output:1").unwrap();
    tables.change(Change::Modify(flow, false), 10_000).unwrap();
    assert_eq!(tables.entries(0)[0].added_ms, 0);
    assert_eq!(tables.expire(24_999).len(), 0);
    assert_eq!(tables.expire(25_000).len(), 1);
}

#[test]
fn the_flows_that_name_a_group_are_deleted_with_it() {
    let mut tables = tables(&[
        "priority=1 actions=group:5",
        "table=3,priority=2 actions=clone(output:1,group:5)",
        "priority=3 actions=write_actions(group:5)",
        "priority=4 actions=group:6",
    ]);
    tables.set_group(flow::Group { id: 5, ..flow::Group::default() }).unwrap();
    tables.delete_group(5);
    assert!(tables.group(5).is_none());
    assert_eq!((tables.flows(), tables.entries(0)[0].flow.priority), (1, 4));
}
