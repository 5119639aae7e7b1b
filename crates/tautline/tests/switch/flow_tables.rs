//! A switch that forwards by flow tables (`--flows`): what comes out is what Open vSwitch sends.
mod changes;
#[path = "../../../conntrack/tests/common/mod.rs"]
pub mod datagrams;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../flow-tables/tests/openvswitch/flows.rs"]
mod flows;
mod fragments;
#[path = "../../../flow-tables/tests/openvswitch/frames.rs"]
mod frames;
mod hostile;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../flow-tables/tests/openvswitch/peer.rs"]
mod peer;
mod policy;

use std::fs;

use datagrams as common;
use datagrams::Random;

use crate::common::Run;
use crate::switch_process::guest::{Guest, RECEIVE, TRANSMIT, frame, layouts};
use crate::switch_process::{Sockets, SwitchProcess, drops, wait_for};

const PORTS: u16 = 4;
/// Receive buffers of each guest.
const ROOM: usize = 60;
/// The flow of the frame that each port gets behind all others.
const MARK: &str = "priority=65535,dl_type=0x88b6 actions=in_port,all";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A switch with these flows, and a guest at each port.
struct Scene {
    _sockets: Sockets,
    switch: SwitchProcess,
    guests: Vec<Guest>,
    marks: u64,
}

impl Scene {
    fn start(flows: &str) -> Self {
        let sockets = Sockets::new();
        fs::write(sockets.path("flows"), format!("{flows}\n{MARK}\n")).unwrap();
        let names: Vec<_> = (1..=PORTS).map(|port| format!("p{port}")).collect();
        let mut arguments: Vec<_> =
            names.iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
        arguments.extend(["--flows".to_owned(), sockets.path("flows").display().to_string()]);
        Self::of(sockets, &arguments, &names)
    }

    /// A switch with these arguments, and a guest at each of these sockets.
    fn of(sockets: Sockets, arguments: &[String], names: &[impl AsRef<str>]) -> Self {
        let switch = SwitchProcess::start(arguments);
        let guests = names.iter().map(|name| {
            let mut guest = Guest::running(&sockets.path(name.as_ref()), layouts()[0]);
            guest.post(ROOM);
            guest
        });
        Self { guests: guests.collect(), _sockets: sockets, switch, marks: 0 }
    }

    /// What each guest gets when these frames come from one.
    fn send(&mut self, input: u16, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        self.marks += 1;
        let mut mark = frame(9, 60);
        mark[12..14].copy_from_slice(&[0x88, 0xb6]);
        mark[14..22].copy_from_slice(&self.marks.to_be_bytes());
        let sender = &mut self.guests[usize::from(input) - 1];
        frames.iter().for_each(|frame| sender.send(frame));
        sender.wait_for_used(TRANSMIT, frames.len());
        sender.send(&mark);
        sender.wait_for_used(TRANSMIT, 1);
        self.guests.iter_mut().map(|guest| until(guest, &mark)).collect()
    }
}

/// What a guest gets before a mark.
fn until(guest: &mut Guest, mark: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        for used in guest.wait_for_used(RECEIVE, 1) {
            frames.push(guest.received(&used));
            guest.post(1);
        }
        if frames.last().is_some_and(|last| last == mark) {
            frames.pop();
            return frames;
        }
    }
}

fn sorted(mut all: Vec<Vec<Vec<u8>>>) -> Vec<Vec<Vec<u8>>> {
    all.iter_mut().for_each(|frames| frames.sort_unstable());
    all
}

#[test]
fn frames_leave_byte_by_byte_as_openvswitch_sends_them() {
    let mut random = Random(5);
    let mut peer = peer::Peer::start(PORTS);
    let mut left = 0;
    for _ in 0..4 {
        let mut flows = flows::flows(&mut random);
        // Frames are not cut yet.
        flows.retain(|flow| !flow.contains("max_len"));
        peer.set_flows(&flows);
        flows.extend(flows::GROUPS.map(str::to_owned));
        let mut scene = Scene::start(&flows.join("\n"));
        for input in (1..=PORTS).flat_map(|port| [port; 12]) {
            let frames: Vec<_> = (0..3).map(|_| frames::frame(&mut random)).collect();
            let wanted = sorted(peer.send(input, &frames));
            assert!(wanted.iter().all(|of_port| of_port.len() < ROOM), "more than a guest has room for");
            left += wanted.iter().flatten().count();
            let sent = sorted(scene.send(input, &frames));
            let traces = || frames.iter().map(|frame| peer.trace(input, &hex(frame))).collect::<String>();
            assert_eq!(sent, wanted, "{}", traces());
        }
        scene.switch.end();
    }
    println!("{left} frames left");
    assert!(left > 300, "only {left} frames left");
}

/// Stations are learned by frames that are sent to `normal`, and by no others.
#[test]
fn normal_forwards_as_a_switch_that_learns() {
    let mut scene = Scene::start("priority=1 actions=normal\npriority=2,in_port=4 actions=drop");
    let (one, two) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let of = |to: [u8; 6], from: [u8; 6]| [&to[..], &from, &[0x88, 0xb5], &[7; 60]].concat();
    let none = Vec::<Vec<u8>>::new;
    let (first, answer) = (of(two, one), of(one, two));
    let flooded = vec![none(), vec![first.clone()], vec![first.clone()], vec![first.clone()]];
    assert_eq!(scene.send(1, std::slice::from_ref(&first)), flooded);
    assert_eq!(scene.send(4, std::slice::from_ref(&answer)), [none(), none(), none(), none()]);
    assert_eq!(scene.send(1, std::slice::from_ref(&first)), flooded, "a dropped frame was learned");
    assert_eq!(scene.send(2, std::slice::from_ref(&answer)), [vec![answer], none(), none(), none()]);
    let to_one = [none(), vec![first.clone()], none(), none()];
    assert_eq!(scene.send(1, &[first]), to_one);
    wait_for("the drop", || (drops(&scene.switch.snapshot(), "p4", "dropped by flows") == 1).then_some(()));
    scene.switch.end();
}

/// A guest speaks with an address that the other one never sees, and only answers come back.
#[test]
fn connections_are_tracked_marked_and_translated() {
    let mut scene = Scene::start(
        "table=0,priority=1,ip actions=ct(table=1,zone=7,nat)\n\
         table=1,priority=1,ip,ct_state=+trk+new,in_port=1 actions=ct(commit,zone=7,nat(src=10.0.9.9),exec(set_field:5->ct_mark)),output:2\n\
         table=1,priority=1,ip,ct_state=+trk+est,ct_mark=5,in_port=1 actions=output:2\n\
         table=1,priority=1,ip,ct_state=+trk+est+rpl,ct_mark=5,in_port=2 actions=output:1",
    );
    let framed = |datagram: Vec<u8>| [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0][..], &datagram].concat();
    let udp = |from, to, ports| framed(datagrams::udp(datagrams::Ends::new(from, to, ports), &[7; 40]));
    let (asks, asked) = (udp("10.0.0.1", "10.0.0.2", [2000, 53]), udp("10.0.9.9", "10.0.0.2", [2000, 53]));
    let (answers, answered) =
        (udp("10.0.0.2", "10.0.9.9", [53, 2000]), udp("10.0.0.2", "10.0.0.1", [53, 2000]));
    let none = Vec::<Vec<u8>>::new;
    let sent = scene.send(2, std::slice::from_ref(&answers));
    assert_eq!(sent, [none(), none(), none(), none()], "nobody has asked");
    for _ in 0..2 {
        assert_eq!(scene.send(1, std::slice::from_ref(&asks)), [none(), vec![asked.clone()], none(), none()]);
        assert_eq!(
            scene.send(2, std::slice::from_ref(&answers)),
            [vec![answered.clone()], none(), none(), none()]
        );
    }
    let other = udp("10.0.0.2", "10.0.9.9", [54, 2000]);
    assert_eq!(scene.send(2, &[other]), [none(), none(), none(), none()], "from another port");
    scene.switch.end();
}

/// A TCP segment to a port of 10.0.0.2, from 10.0.0.1.
fn segment(port: u8) -> Vec<u8> {
    let mut frame =
        vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0x66, 0xba];
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0, port]);
    frame.resize(74, 0);
    frame[46] = 0x50;
    frame
}

#[test]
fn the_commands_of_the_page_work() {
    let page = include_str!("../../../../docs/flows.md");
    let marker = "<!-- test: run by crates/tautline/tests/switch/flow_tables.rs -->\n```sh\n";
    let block = page.split(marker).nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (file, command) = block.split_once("\nEND\n").unwrap();
    let sockets = Sockets::new();
    let flows = file.split_once("<<'END'\n").unwrap().1;
    fs::write(sockets.path("flows"), format!("{flows}\n{MARK}\n")).unwrap();
    let command =
        command.trim_end().trim_end_matches(" &").replace("/tmp", &sockets.path("").display().to_string());
    let arguments: Vec<_> =
        command.strip_prefix("tautline switch ").unwrap().split(' ').map(str::to_owned).collect();
    let mut scene = Scene::of(sockets, &arguments, &["one.sock", "two.sock", "three.sock"]);
    let (web, other) = (segment(80), segment(81));
    let routed = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        (frame[5], frame[22], frame[24]) = (2, 63, 0x67);
        frame
    };
    let copy = [&web[..12], &[0x81, 0, 0, 5], &web[12..]].concat();
    let sent = scene.send(1, std::slice::from_ref(&web));
    assert_eq!(sent, [vec![], vec![routed(&web)], vec![copy]]);
    let sent = scene.send(1, std::slice::from_ref(&other));
    assert_eq!(sent, [vec![], vec![routed(&other)], vec![]]);
    // Port 2 sends with an address of port 1.
    assert_eq!(scene.send(2, &[other]), [const { Vec::<Vec<u8>>::new() }; 3]);
    scene.switch.end();
}

#[test]
fn a_file_with_what_is_not_there_yet_starts_no_switch() {
    let sockets = Sockets::new();
    let file = sockets.path("flows").display().to_string();
    let port = sockets.port("one", "vhost-user", "");
    fs::write(&file, "priority=1 actions=normal\nip actions=LOCAL\n").unwrap();
    let run = Run::new(&["switch", &port[0], &port[1], "--flows", &file]).finish();
    let said = format!("--flows {file}: line 2: action 'LOCAL': the switch has no port of its own");
    assert!(run.code == Some(2) && run.to_string().contains(&said), "{run}");
    fs::write(&file, "priority=1 actions=normal\n").unwrap();
    let tagged = format!("{},tag=5", port[1]);
    let run = Run::new(&["switch", &port[0], &tagged, "--flows", &file]).finish();
    assert!(run.code == Some(2) && run.to_string().contains("port 'one' has VLANs"), "{run}");
    let run = Run::new(&["switch", &port[0], &port[1], "--flows", &format!("{file}.none")]).finish();
    assert!(run.code == Some(2) && run.to_string().contains("No such file"), "{run}");
    drop(sockets);
}
