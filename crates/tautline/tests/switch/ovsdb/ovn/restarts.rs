//! A switch under OVN that is taken over by another process, or killed: connections go on.
use std::time::{Duration, Instant};

use super::{Cloud, udp};
use crate::switch_process::guest::{Guest, RECEIVE, TRANSMIT, layouts};
use crate::switch_process::{SwitchProcess, wait_for};

/// Frames after the change, in each direction.
const AFTER: u16 = 200;

/// A frame of station 2 that no connection of station 1 allows.
fn forbidden() -> Vec<u8> {
    udp(2, 1, [54, 3000])
}

impl Cloud {
    /// Station 1 may begin connections, and gets only the frames of these.
    fn guarded() -> Self {
        let cloud = Self::new();
        cloud.nbctl(&["ls-add", "sw0"]);
        let of_one = ["inport == \"vif1\" && ip4", "outport == \"vif1\" && ip4"];
        cloud.nbctl(&["acl-add", "sw0", "from-lport", "1001", of_one[0], "allow-related"]);
        cloud.nbctl(&["acl-add", "sw0", "to-lport", "1000", of_one[1], "drop"]);
        cloud.add(0, 1);
        cloud.add(0, 2);
        cloud
    }

    fn arguments(&self) -> Vec<String> {
        self.scene.arguments(&self.scene.sockets)
    }
}

/// A frame of station 1 to station 2, and the answer.
#[track_caller]
fn exchange(one: &mut Guest, two: &mut Guest) {
    let there = udp(1, 2, [3000, 53]);
    one.send(&there);
    assert_eq!(two.receive(), there);
    one.reclaim(TRANSMIT);
    two.post(1);
    answer(one, two);
}

/// An answer of station 2 behind a forbidden frame.
#[track_caller]
fn answer(one: &mut Guest, two: &mut Guest) {
    two.send(&forbidden());
    let back = udp(2, 1, [53, 3000]);
    two.send(&back);
    assert_eq!(one.receive(), back, "the answer alone");
    two.reclaim(TRANSMIT);
    one.post(1);
}

/// No frame is lost, and rules hold at each moment: the flows and connections are there before the first frame moves.
#[test]
fn a_switch_under_ovn_is_taken_over_with_its_flows_and_connections() {
    let mut cloud = Cloud::guarded();
    let [mut one, mut two] = cloud.stations([1, 2]);
    exchange(&mut one, &mut two);

    let control = cloud.scene.sockets.path("control").display().to_string();
    let arguments = [cloud.arguments(), vec!["--take-over".to_owned(), control]].concat();
    let new = SwitchProcess::begin_in(&cloud.scene.network, &arguments);
    let (begun, mut answers) = (Instant::now(), 0);
    let stood_still = loop {
        answer(&mut one, &mut two);
        answers += 1;
        let said = new.logged();
        if let Some(line) = said.iter().find(|line| line.contains("taken over; no frame moved for ")) {
            break line.clone();
        }
        assert!(begun.elapsed().as_secs() < 60, "{said:#?} {:#?}", cloud.scene.switch.logged());
    };
    println!("{answers} answers until then; {stood_still}");
    std::mem::replace(&mut cloud.scene.switch, new).ended();
    // Station 1 has sent nothing: the connection is known.
    (0..AFTER).for_each(|_| answer(&mut one, &mut two));
    wait_for("the connection in a list", || {
        let said = cloud.scene.appctl("dpctl/dump-conntrack");
        said.contains("orig=(src=10.0.0.1,dst=10.0.0.2,sport=3000,dport=53)").then_some(())
    });
    // The database and the controller find the new switch, and the controller's flows replace these.
    cloud.add(0, 3);
    let [mut three] = cloud.stations([3]);
    answer(&mut one, &mut two);
    three.send(&udp(3, 2, [1, 2]));
    assert_eq!(two.receive(), udp(3, 2, [1, 2]));
    exchange(&mut one, &mut two);
    cloud.scene.switch.end();
}

/// A killed switch gets its flows from the controller again. Until then it forwards nothing, and the connections begin
/// anew.
#[test]
fn a_killed_switch_under_ovn_forwards_again_by_the_rules() {
    let mut cloud = Cloud::guarded();
    let path = |port: &str| cloud.scene.database.socket().with_file_name(port);
    let paths = ["vif1", "vif2"].map(path);
    cloud.sync();
    let [(mut one, of_one), (mut two, of_two)] = paths.each_ref().map(|path| {
        wait_for("the port", || cloud.scene.listens(path).then_some(()));
        let (mut guest, in_flight) = Guest::running_with_in_flight(path, layouts()[0]);
        guest.post(32);
        (guest, in_flight)
    });
    cloud.sync();
    exchange(&mut one, &mut two);
    let arguments = cloud.arguments();
    cloud.scene.switch.kill();
    let killed = Instant::now();
    cloud.scene.switch = SwitchProcess::begin_in(&cloud.scene.network, &arguments);
    one.reconnect(&paths[0], &of_one, true);
    two.reconnect(&paths[1], &of_two, true);
    // The connection is forgotten with the switch: station 1 goes on first.
    let (there, mut lost) = (udp(1, 2, [3000, 53]), 0);
    wait_for("a frame by the rules", || {
        two.send(&forbidden());
        one.send(&there);
        std::thread::sleep(Duration::from_millis(10));
        one.reclaim(TRANSMIT);
        two.reclaim(TRANSMIT);
        let come = two.used(RECEIVE);
        lost += usize::from(come.is_empty());
        let frame = come.first().map(|used| two.received(used))?;
        two.post(come.len());
        assert_eq!(frame, there);
        Some(())
    });
    println!("{lost} frames lost at one each 10 ms, {:?} after the kill", killed.elapsed());
    (0..AFTER).for_each(|_| answer(&mut one, &mut two));
    cloud.scene.switch.end();
}
