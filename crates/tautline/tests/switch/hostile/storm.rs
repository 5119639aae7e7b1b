//! One guest's storm, and what it costs the others: of their queues what the limits name, and not one frame.
//!
//! ```text
//!   storm ─┬─ switch ─┬─ a ═ b   two neighbours, whose frames flow all along
//!          │          └─ ear     a third, who takes nothing: what is sent to it is counted
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frame::FrameBatch;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use serde_json::Value;
use torture::Bystander;
use traffic::frames::Fields;
use traffic::rig::TestRig;

use crate::switch_process::bystanders::MAX_LATENCY;
use crate::switch_process::{SOON, Sockets, SwitchProcess, drops, passed, wait_for};

/// This many of the storm's frames may pass in a second. Beside the neighbours' own these find room in their queues for
/// a fifth of a second, should a neighbour be away from its CPU for that long.
const LIMIT: u64 = 300;
/// What a bucket holds when nothing has passed for long: 50 ms of the rate, and never less than this.
const AT_ONCE: u64 = 64;
/// A storm counts as one if this many times more frames were dropped than may pass.
const STORM: u64 = 10;
/// The neighbours send this many frames a second each way.
const NEIGHBOURS: u32 = 2000;
/// The neighbours send a broadcast a millisecond beside them.
const BROADCASTS: u64 = 1000;

/// As fast as the port takes them, until told to end.
struct Storm {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Storm {
    fn begin(path: PathBuf, destination: [u8; 6]) -> Self {
        let over = Arc::<AtomicBool>::default();
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut frame = [0; 60];
            frame[..6].copy_from_slice(&destination);
            frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0x57, 1, 0x88, 0xb6]);
            let batch = FrameBatch::of_frame(&frame).unwrap();
            let mut rig = attached(&path);
            while !told.load(Ordering::Relaxed) {
                let sink = rig.end(0).sinks().next().expect("the switch has closed the port");
                if sink.room() < 32 {
                    std::thread::yield_now();
                    continue;
                }
                sink.accept(&batch, &[0; 32]).unwrap();
            }
        });
        Storm { over, thread }
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn attached(path: &Path) -> TestRig {
    let mut rig = TestRig::new();
    let port = VirtioUser::new(VirtioUserOptions::new(path)).unwrap();
    rig.attach("storm", Box::new(port)).unwrap();
    rig.wait_until_up(SOON).unwrap();
    rig
}

/// Frames that were sent to a port, whether its guest took them or not.
fn sent_to(snapshot: &Value, port: &str) -> u64 {
    passed(snapshot, port, false) + drops(snapshot, port, "receiver full")
}

/// A storm of frames to this station, with a limit that counts what it drops for this reason; until the storm is one.
fn storm(limit: &str, destination: [u8; 6], reason: &str) {
    let sockets = Sockets::new();
    let ports = ["storm", "a", "b", "ear"].map(|name| sockets.port(name, "vhost-user", ""));
    let limit = limit.split(' ').map(str::to_owned).collect();
    let switch = SwitchProcess::start(&[ports.concat(), limit].concat());
    let _ear = attached(&sockets.path("ear"));
    let paths = ["a", "b"].map(|name| sockets.path(name));
    let neighbours = Bystander::start(paths.each_ref().map(PathBuf::as_path), NEIGHBOURS).unwrap();
    // Both stations have been seen, so that their frames go to no other port.
    wait_for("the neighbours' frames", || (passed(&switch.snapshot(), "a", false) > 100).then_some(()));
    let reached = |snapshot: &Value| ["a", "b", "ear"].map(|port| sent_to(snapshot, port));
    let before = reached(&switch.snapshot());
    let since = Instant::now();
    let storm = Storm::begin(sockets.path("storm"), destination);
    let may_pass = || (since.elapsed().as_secs_f64() * LIMIT as f64) as u64 + AT_ONCE;
    let after = wait_for("a storm", || {
        let snapshot = switch.snapshot();
        let dropped = drops(&snapshot, "storm", reason);
        (since.elapsed() > Duration::from_secs(1) && dropped > STORM * may_pass()).then_some(snapshot)
    });
    let (may_pass, elapsed) = (may_pass(), since.elapsed());
    storm.end();
    let neighbours = neighbours.end().unwrap();
    let dropped = drops(&after, "storm", reason);
    let reached: Vec<u64> =
        reached(&after).iter().zip(before).map(|(after, before)| after - before).collect();
    println!(
        "{neighbours:?}; {dropped} dropped, {may_pass} may pass in {elapsed:.1?}, {reached:?} reached a, b, the ear"
    );
    // The other frames to a third port are the neighbours' broadcasts.
    let broadcasts = (elapsed.as_secs_f64() * BROADCASTS as f64) as u64 + 1;
    assert!(reached[2] <= may_pass + broadcasts, "{} of the storm's frames may pass, {reached:?}", may_pass);
    // The neighbours have their own frames as well, half as many again where one was away from its CPU.
    let own = elapsed.as_secs_f64() * (f64::from(NEIGHBOURS) + BROADCASTS as f64) * 1.5;
    assert!(
        reached[..2].iter().all(|frames| *frames <= may_pass + own as u64),
        "{reached:?}, {own} their own"
    );
    assert_eq!((neighbours.received, neighbours.spoiled), (neighbours.sent, 0), "{neighbours:?}");
    assert!(neighbours.longest_gap_ns < MAX_LATENCY.as_nanos() as u64, "{neighbours:?}");
    switch.end();
}

#[test]
fn a_storm_of_broadcasts_costs_the_others_its_share_and_no_frame() {
    storm(&format!("--flood-limit storm={LIMIT}"), [0xff; 6], "flood limit");
}

#[test]
fn a_storm_to_nobody_costs_the_others_its_share_and_no_frame() {
    storm(&format!("--flood-limit storm={LIMIT}"), [2, 0, 0, 0, 0x57, 2], "flood limit");
}

#[test]
fn a_storm_to_one_neighbour_costs_it_its_share_and_no_frame() {
    storm(&format!("--police storm={LIMIT}pps"), Fields::default().destination.0, "policed");
}
