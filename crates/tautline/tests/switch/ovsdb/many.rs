//! A thousand ports.
use std::time::{Duration, Instant};

use super::{BRIDGE, Scene, resident_kib};
use crate::switch_process::{dropped, wait_for};

const PORTS: usize = 1000;

/// They come and go while frames flow between two others, and leave nothing behind.
#[test]
fn a_thousand_ports_come_and_go() {
    let scene = Scene::new();
    let mut ends = scene.add_ends();
    let change = |words: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..PORTS).map(words).collect();
        let since = Instant::now();
        scene.vsctl(&all.join(" -- "));
        since.elapsed()
    };
    let stands = || (scene.switch.open_fds(), resident_kib(scene.switch.id()));
    let add = |at| format!("add-port {BRIDGE} p{at} -- set Interface p{at} type=dpdkvhostuser");
    let remove = |at| format!("del-port p{at}");
    // What a first round allocates is used again by the second.
    let first = [change(&add), change(&remove)];
    let before = stands();
    let added = change(&add);
    let with = stands();
    assert_eq!(scene.switch.snapshot()["ports"].as_array().unwrap().len(), PORTS + 3);
    let folder = scene.database.socket();
    assert!((0..PORTS).all(|at| scene.listens(&folder.with_file_name(format!("p{at}")))));
    let numbers = scene.vsctl("--no-wait --columns=ofport --format=csv --no-headings list Interface");
    let mut numbers: Vec<&str> = numbers.lines().collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), PORTS + 3, "each has its own");
    let removed = change(&remove);
    // A look of the database's client may be under way.
    let is_closed = || (scene.switch.open_fds() <= before.0).then_some(());
    wait_for("as few descriptors as before", is_closed);
    let after = stands();
    println!(
        "{PORTS} ports: first {first:.2?}, added in {added:.2?}, removed in {removed:.2?}; descriptors and KiB resident \
         before {before:?}, with them {with:?}, after {after:?}"
    );
    assert!(after.1 < before.1 + (8 << 10), "memory");
    ends.exchange(2000.0, Duration::from_millis(200));
    let hellos = ends.hellos();
    assert_eq!(ends.account(|| dropped(&scene.switch.snapshot()) - hellos), 0);

    // More ports than a switch has: those that do not fit say so.
    change(&add);
    let more: Vec<String> = (PORTS..PORTS + 30).map(add).collect();
    scene.vsctl(&more.join(" -- "));
    let refused =
        scene.vsctl("--no-wait --columns=error --format=csv --no-headings find Interface ofport=-1");
    assert_eq!(refused.lines().count(), PORTS + 30 + 3 - 1024, "{refused}");
    assert!(refused.contains("ports"), "{refused}");
    scene.switch.end();
}
