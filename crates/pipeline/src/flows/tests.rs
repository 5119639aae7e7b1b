#[path = "../../../flow-tables/tests/ports/mod.rs"]
mod ports;

use std::time::{Duration, Instant};

use ::flow::{Flow, Group, Meter};
use flow_tables::{Change, Continuation, Limits, Tables};

use super::*;
use crate::testing::{Recorder, Said, burst_of, network, run_with};
use crate::worker_flows::flow_ms;
use crate::{BondExits, Carriers, ControllersFrame, Injected, Upcall, Wanted};

#[test]
fn the_difference_makes_one_beginning_out_of_the_other() {
    for (from, to, expected) in [
        ("abcdef", "abcdef", (6, 0, "")),
        ("abcdef", "abXdeY", (2, 4, "XdeY")),
        ("abcdef", "abcXYdef", (3, 0, "XY")),
        ("abcdef", "abef", (2, 2, "")),
        ("aa", "aaa", (2, 0, "a")),
        ("aaa", "aa", (2, 1, "")),
        ("", "ab", (0, 0, "ab")),
        ("0123456789abcdefXghijklmnopqrstuv", "0123456789abcdefYYghijklmnopqrstuv", (16, 1, "YY")),
        ("0123456789", "0123456789", (10, 0, "")),
        ("01234567", "0123456701234567", (8, 0, "01234567")),
    ] {
        let edit = difference(from.as_bytes(), to.as_bytes());
        assert_eq!((edit.at, edit.removed, edit.inserted), (expected.0, expected.1, expected.2.as_bytes()));
    }
}

const PORTS: [PortId; 4] = [PortId(0), PortId(1), PortId(2), PortId(3)];

fn tables(lines: &[&str]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    for line in lines {
        if line.starts_with("group_id=") {
            tables.set_group(Group::parse(line).unwrap()).unwrap();
        } else if line.starts_with("meter=") {
            tables.set_meter(Meter::parse(line).unwrap(), flow_ms(Instant::now())).unwrap();
        } else {
            tables.change(Change::Add(Flow::parse(line).unwrap()), 0).unwrap();
        }
    }
    tables
}

/// The program of the first of four ports.
fn program() -> FlowProgram {
    let learning = network(&PORTS).swap_remove(0);
    let numbers = Arc::new(PortNumbers::new(PORTS.map(|port| (port.0 + 1, port))));
    let connections = Arc::new(Connections::new(4));
    let upcalls = Arc::new(Upcalls::new(4));
    FlowProgram { learning, bonds: None, tables: TablesId(0), number: 1, numbers, connections, upcalls }
}

/// UDP from this port.
fn udp(port: u8) -> Vec<u8> {
    let mut frame = vec![2; 64];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[34..40].copy_from_slice(&[0, port, 0, 53, 0, 30]);
    frame
}

/// The results for these frames.
fn said(lines: &[&str], frames: &[Vec<u8>]) -> Vec<Said> {
    let flows = Some(Box::new(WorkerFlows::new(Arc::new(tables(lines)))));
    run_with(&program(), &burst_of(frames), Recorder { flows, ..Recorder::default() }).0
}

fn sent(port: u16, index: u16) -> Said {
    Said::Send(PortId(port), index..index + 1)
}

#[test]
fn frames_leave_by_the_buckets_of_groups() {
    let all = "group_id=1,type=all,bucket=output:2,bucket=output:3";
    assert_eq!(said(&[all, "actions=group:1"], &[udp(1)]), [sent(1, 0), sent(2, 0)]);
    let failover = "group_id=1,type=ff,bucket=watch_port:9,output:2,bucket=watch_port:4,output:4";
    assert_eq!(said(&[failover, "actions=group:1"], &[udp(1)]), [sent(3, 0)]);
    let select =
        "group_id=1,type=select,selection_method=hash,fields(udp_src),bucket=output:2,bucket=output:3";
    let frames: Vec<_> = (0..64).map(udp).collect();
    let chosen = said(&[select, "udp actions=group:1"], &frames);
    let to =
        |port: u16| chosen.iter().filter(|said| matches!(said, Said::Send(to, _) if to.0 == port)).count();
    assert!(to(1) + to(2) == 64 && to(1) > 16 && to(2) > 16, "{chosen:?}");
    // Each connection goes one way.
    assert_eq!(said(&[select, "udp actions=group:1"], &frames), chosen);
}

/// The clock of the test stands still.
#[test]
fn frames_beyond_the_rate_of_a_meter_are_dropped() {
    let meter = "meter=1,pktps,burst,bands=type=drop,rate=1,burst_size=2";
    let flows = [meter, "actions=meter:1,output:2"];
    let frames: Vec<_> = (0..3).map(udp).collect();
    assert_eq!(said(&flows, &frames), [sent(1, 0), sent(1, 1), Said::Drop(DropReason::ByFlow, 1)]);
}

/// Frames that hit the cache are counted too, after they are flushed; a flow with an idle time was used at the time of
/// the flush.
#[test]
fn flows_have_counted_all_frames_after_a_flush() {
    let tables = Arc::new(tables(&["udp,idle_timeout=10 actions=output:2", "priority=1 actions=drop"]));
    let flows = Some(Box::new(WorkerFlows::new(Arc::clone(&tables))));
    let mut output = Recorder { flows, ..Recorder::default() };
    let (program, batch, start) =
        (program(), burst_of(&[udp(1), udp(2), udp(1), vec![2; 60]]), Instant::now());
    for _ in 0..3 {
        program.run(&batch, &|| start, &mut output);
    }
    let flows = output.flows.as_mut().unwrap();
    let counts = flows.counts(PortId(0)).unwrap();
    // Ports of UDP are in no flow: one outcome for all of it.
    assert_eq!((counts.hits, counts.misses), (10, 2));
    flows.flush(start + Duration::from_secs(5));
    let [udp, other] = [0, 1].map(|at| Arc::clone(tables.entries(0)[at]));
    assert_eq!((udp.counters().get(), other.counters().get()), ((9, 9 * 64), (3, 180)));
    let used_ms = udp.counters().used_ms();
    assert_eq!(used_ms, flow_ms(start + Duration::from_secs(5)));
    let over = |now_ms: u64| tables.over(now_ms).len();
    assert_eq!((over(used_ms + 9_999), over(used_ms + 10_000)), (0, 1));
}

/// `normal` is kept by the cache, and learns and looks up addresses for each frame.
#[test]
fn normal_decides_anew_for_each_frame() {
    let program = program();
    let flows = Some(Box::new(WorkerFlows::new(Arc::new(tables(&["actions=normal"])))));
    let mut output = Recorder { flows, ..Recorder::default() };
    let to = |address: u8| [&[2, 0, 0, 0, 0, address, 2, 0, 0, 0, 0, 9][..], &[0; 48]].concat();
    let batch = burst_of(&[to(1)]);
    let flooded = [1, 2, 3].map(|port| sent(port, 0));
    program.run(&batch, &Instant::now, &mut output);
    assert_eq!(output.said, flooded);
    program.learning.table.learn(MacAddress([2, 0, 0, 0, 0, 1]), PortId(2)).unwrap();
    output.said.clear();
    program.run(&batch, &Instant::now, &mut output);
    assert_eq!(output.said, [sent(2, 0)]);
    assert_eq!(output.flows.unwrap().counts(PortId(0)).unwrap().hits, 1);
}

/// The second and the third port are one bond, for which the second port stands in the network.
#[test]
fn normal_chooses_a_port_of_a_bond_and_output_names_one() {
    let [_, first, second, other] = PORTS;
    let bonds = [BondExits { port: first, exits: Carriers::One(second) }].into();
    let mut program = program();
    program.learning.members = [PORTS[0], first, other].into();
    program.bonds = Some(BondedNetwork { bonds, ports: PORTS.into() });
    let mut frame = udp(1);
    frame[5] = 9;
    let run = |lines: &[&str]| {
        let flows = Some(Box::new(WorkerFlows::new(Arc::new(tables(lines)))));
        run_with(&program, &burst_of(std::slice::from_ref(&frame)), Recorder { flows, ..Recorder::default() })
            .0
    };
    assert_eq!(run(&["actions=normal"]), [sent(2, 0), sent(3, 0)]);
    assert_eq!(run(&["actions=output:2"]), [sent(1, 0)]);
}

/// UDP from port 7 in three fragments, with the flags and offsets of IPv4 (RFC 791 §3.1).
fn fragments(id: u8) -> [Vec<u8>; 3] {
    [(0x20, 0, 44), (0x20, 3, 44), (0, 6, 24)].map(|(flags, offset, bytes)| {
        let mut frame = udp(7);
        frame.truncate(60);
        (frame[17], frame[19]) = (bytes, id);
        (frame[20], frame[21]) = (flags, offset);
        (frame[38], frame[39]) = (0, 52);
        frame
    })
}

/// A fragment has no effect until its datagram is complete. Then all leave, in the order of their offsets, and each is
/// counted once. The fragments of one datagram come by different queue pairs, which different workers have.
#[test]
fn fragments_wait_for_their_datagram_and_are_counted_once() {
    let lines = [
        "table=0,ip actions=output:4,ct(table=1,zone=3)",
        "table=1,ct_state=+new+trk,ct_nw_proto=17,ct_tp_src=7,ip actions=ct(commit,zone=3),output:2",
        "table=1,priority=0 actions=output:3",
    ];
    let tables = Arc::new(tables(&lines));
    let worker = || {
        let flows = Some(Box::new(WorkerFlows::new(Arc::clone(&tables))));
        Recorder { flows, ..Recorder::default() }
    };
    let program = program();
    let mut held = OwnFrames::new(2, 1000).unwrap();
    let [first, second, last] = fragments(9);
    let mut output = worker();
    program.run(&burst_of(&[last, first, fragments(8)[1].clone()]), &Instant::now, &mut output);
    assert!(output.said.is_empty() && !output.again, "{:?}", output.said);
    output = worker();
    program.run(&burst_of(&[second]), &Instant::now, &mut output);
    assert!(output.said.is_empty() && output.again);
    let mut left = Vec::new();
    while program.take_held(&mut held, &mut output) {
        assert_eq!(
            program.run_held(held.batch(), &Instant::now, &mut output).frames as usize,
            held.batch().len()
        );
        left.extend(held.batch().frames().map(|frame| {
            let mut bytes = vec![0; frame.len_bytes()];
            frame.read(0, &mut bytes);
            bytes
        }));
    }
    assert_eq!(left, fragments(9));
    let sent = |said: &Said| match said {
        Said::Send(port, frames) | Said::SendEdited(port, frames, _) => (port.0, frames.start),
        other => panic!("{other:?}"),
    };
    let said: Vec<_> = output.said.iter().map(sent).collect();
    assert_eq!(said, [(3, 0), (1, 0), (3, 1), (1, 1), (3, 0), (1, 0)]);
    let flows = output.flows.as_mut().unwrap();
    flows.flush(Instant::now());
    let counts = [(0, 0), (1, 0), (1, 1)].map(|(table, at)| tables.entries(table)[at].counters().get().0);
    assert_eq!(counts, [3, 3, 0]);
    // One that is still to be segmented, or that contradicts another one, is dropped.
    output.said.clear();
    let mut overlapping = fragments(8)[0].clone();
    overlapping.resize(66, 0);
    overlapping[17] = 52;
    program.run(&burst_of(&[overlapping]), &Instant::now, &mut output);
    let dropped = Said::Drop(DropReason::Incomplete, 1);
    assert_eq!(output.said, [dropped.clone(), dropped]);
}

/// A fragment behind a label that is removed does not wait: what waits is a frame as it came.
#[test]
fn fragments_behind_a_label_do_not_wait() {
    let lines = [
        "mpls actions=pop_mpls:0x0800,resubmit(,1)",
        "table=1,ip actions=ct(table=2)",
        "table=2 actions=output:2",
    ];
    let label = [0x88, 0x47, 0, 0, 0x51, 64];
    let labelled = fragments(9).map(|frame| [&frame[..12], &label, &frame[14..]].concat());
    let said = said(&lines, &labelled);
    assert!(
        said.len() == 3 && said.iter().all(|one| matches!(one, Said::SendEdited(PortId(1), ..))),
        "{said:?}"
    );
}

/// A port gets the place and the number of a tunnel that was removed, and a tunnel those of a port. The frames of the one
/// have neither fields nor outcomes of the other.
#[test]
fn a_port_in_the_place_of_a_tunnel_gets_none_of_its_fields() {
    let mut flows = WorkerFlows::new(Arc::new(tables(&[
        "tun_id=7,udp actions=output:2",
        "tun_id=0,udp actions=output:4,ct(table=1)",
        "table=1,tun_id=7 actions=output:2",
        "table=1,tun_id=0 actions=output:4",
    ])));
    let mut key = Key::ZERO;
    key.set(Field::TunnelId, 7);
    key.set(Field::TunnelSrc, 5);
    let tunnel = key.tunnel();
    for is_tunnel in [true, false, false, true, true, false] {
        let frame = udp(1);
        flows.window = HeaderWindow::new(&frame, frame.len(), 1);
        // Port 4 is a tunnel: the fields of frames to it are kept.
        flows.execute(PORTS[0], 1, is_tunnel.then_some(&tunnel), None, &mut ports::Ports);
        let sent = flows.outcome.deliveries.iter().map(|sent| (sent.port, sent.tunnel));
        let wanted = match is_tunnel {
            true => vec![(2, None)],
            false => vec![(4, Some(Key::ZERO.tunnel())); 2],
        };
        assert_eq!(sent.collect::<Vec<_>>(), wanted);
    }
}

/// A controller that wants the beginning of a frame costs no more memory than that.
#[test]
fn of_a_frame_for_controllers_no_more_is_held_than_they_get() {
    let program = program();
    let flows = Some(Box::new(WorkerFlows::new(Arc::new(tables(&["actions=controller(max_len=20)"])))));
    run_with(&program, &burst_of(&[vec![2; 1500]]), Recorder { flows, ..Recorder::default() });
    let upcalls = program.upcalls.take(9);
    let [Upcall { wanted: Wanted::Frame(frame), .. }] = &upcalls[..] else { panic!("{upcalls:?}") };
    assert_eq!((frame.bytes.capacity(), &frame.bytes[..]), (20, &[2; 20][..]));
    assert!(frame.frame_bytes >= 1500, "{}", frame.frame_bytes);
}

/// A controller's frame takes the room for upcalls of its input port, and only of that.
#[test]
fn a_frame_of_a_controller_asks_in_the_name_of_its_input_port() {
    for (input, port) in [(1, Some(PORTS[0])), (3, Some(PORTS[2])), (::flow::port::CONTROLLER, None)] {
        let FlowProgram { learning, numbers, connections, upcalls, .. } = program();
        let wanted = || Wanted::Learn(Arc::default(), Box::new(Key::ZERO));
        while upcalls.give(port, Upcall { tables: TablesId(0), wanted: wanted() }) {}
        let refused = upcalls.refused(port);
        let actions = Flow::parse("actions=controller").unwrap().actions;
        let injected = Injected {
            tables: TablesId(0),
            numbers,
            home: port,
            members: Arc::from(PORTS),
            bonds: None,
            addresses: learning.table,
            connections,
            upcalls: Arc::clone(&upcalls),
            frame: ControllersFrame {
                bytes: udp(1).into(),
                input,
                metadata: Key::ZERO,
                rest: Continuation { rest: vec![(0, actions)], ..Continuation::default() },
            },
        };
        let flows = Some(Box::new(WorkerFlows::new(Arc::new(tables(&[])))));
        run_with(&injected, &burst_of(&[udp(1)]), Recorder { flows, ..Recorder::default() });
        assert_eq!(upcalls.refused(port), refused + 1, "{input}");
    }
}
