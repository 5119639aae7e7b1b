//! A database that goes away, and a switch that is killed.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peers::socket::listens_beside;

use super::{BRIDGE, Scene};
use crate::switch_process::guest::{Guest, layouts};
use crate::switch_process::load::Load;
use crate::switch_process::{Sockets, SwitchProcess, dropped, wait_for};

/// The database is killed and started while frames flow: none is lost. The columns that a database forgets are there
/// again, and the switch follows what comes.
#[test]
fn a_database_that_comes_back_changes_nothing() {
    let mut scene = Scene::new();
    let mut ends = scene.add_ends();
    scene.vsctl(&format!("add-port {BRIDGE} g0 -- set Interface g0 type=geneve options:remote_ip=192.0.2.1"));
    let columns = |scene: &Scene| ["one", "two", "g0"].map(|port| scene.columns(port, "ofport error"));
    let before = columns(&scene);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                ends.exchange(2000.0, Duration::from_millis(100));
            }
        });
        // The server ends with the thread that has started it.
        std::thread::sleep(Duration::from_millis(200));
        scene.database.stop();
        std::thread::sleep(Duration::from_millis(500));
        scene.database.start().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::Relaxed);
    });
    wait_for("the columns to be written again", || (columns(&scene) == before).then_some(()));
    let hellos = ends.hellos();
    assert_eq!(ends.account(|| dropped(&scene.switch.snapshot()) - hellos), 0);
    let three = scene.add_server("three");
    assert!(scene.listens(&three));
    ends.exchange(2000.0, Duration::from_millis(100));
    scene.switch.end();
}

/// A database that has lost its rows takes the ports away; one that is away for good takes nothing.
#[test]
fn a_switch_goes_on_without_its_database() {
    let mut scene = Scene::new();
    let mut ends = scene.add_ends();
    scene.database.stop();
    ends.exchange(2000.0, Duration::from_millis(300));
    let hellos = ends.hellos();
    assert_eq!(ends.account(|| dropped(&scene.switch.snapshot()) - hellos), 0);
    scene.switch.end();
}

/// `kill -9` under load: the next switch finds its ports in the database and their rings where they stand.
#[test]
fn a_killed_switch_finds_its_ports_and_rings_again() {
    for layout in layouts() {
        let mut scene = Scene::in_memory();
        let paths = ["one", "two"].map(|name| scene.add_server(name));
        scene.vsctl("add-port br0 gone -- set Interface gone type=dpdkvhostuser");
        scene.vsctl("add-port br0 last -- set Interface last type=dpdkvhostuser ofport_request=77");
        scene.vsctl("del-port gone");
        let numbers = |scene: &Scene| ["one", "two", "last"].map(|port| scene.columns(port, "ofport"));
        let before = numbers(&scene);
        let (sender, of_sender) = Guest::running_with_in_flight(&paths[0], layout);
        let (receiver, of_receiver) = Guest::running_with_in_flight(&paths[1], layout);
        let mut load = Load::new(sender, receiver);
        let arguments = scene.arguments(&scene.sockets);
        for round in 0..3 {
            let (until, before) = (Instant::now() + Duration::from_millis(30), load.received.len());
            wait_for("frames under load", || {
                load.step(true);
                (Instant::now() > until && load.received.len() > before).then_some(())
            });
            scene.switch.kill();
            load.take();
            scene.switch = SwitchProcess::begin_in(&scene.network, &arguments);
            load.receiver.reconnect(&paths[1], &of_receiver, round % 2 == 0);
            load.sender.reconnect(&paths[0], &of_sender, round % 2 == 0);
        }
        wait_for("the completion of all frames", || {
            load.step(false);
            (load.completed.len() == load.sent as usize).then_some(())
        });
        assert!(
            load.lost().is_empty() && load.doubled().is_empty(),
            "{:?} {:?}",
            load.lost(),
            load.doubled()
        );
        scene.vsctl("set Interface one external_ids:after=restart");
        assert_eq!(numbers(&scene), before);
        scene.switch.end();
    }
}

/// Of two switches at one database the one with the lock works, and the other goes on when that is gone.
#[test]
fn of_two_switches_one_has_the_ports() {
    let mut scene = Scene::new();
    let one = scene.add_server("one");
    let sockets = Sockets::new();
    let second = scene.start(&sockets);
    scene.vsctl("set Interface one external_ids:a=b");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(second.snapshot()["ports"].as_array().unwrap().len(), 0);
    scene.switch.kill();
    wait_for("the second switch's port", || listens_beside(second.id(), &one).then_some(()));
    scene.switch = second;
    Guest::running(&one, layouts()[0]);
    scene.add_server("two");
    scene.switch.end();
}
