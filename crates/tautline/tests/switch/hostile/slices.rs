//! Senders whose frames each cost the switch much, and two guests whose frames pass the same workers.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use virtio::{Features, NetFeatures};

use super::amplification::{many_regions, post_large};
use super::tables::Tables;
use crate::switch_process::guest::{DATA, DATA_BYTES, Guest, HEADER, RECEIVE, TRANSMIT, frame, plain};
use crate::switch_process::{SOON, Sockets, SwitchProcess, connect, cpus, wait_for};

/// Where tables lie, behind the buffers.
const TABLE: u64 = DATA + 0x30_0000;
const FRAME_BYTES: u64 = 65_000;

/// Threads that are woken have a CPU after less, where one is free.
const AT_ONCE: Duration = Duration::from_micros(50);

/// What one of a hundred frames may exceed.
const LONGEST: Duration = Duration::from_millis(5);

/// Pieces of a frame with its net header, at guest addresses.
type Pieces = Vec<(u64, u32)>;

/// The frame in so many pieces of one region.
fn pieces(count: u64) -> Pieces {
    let bytes = HEADER as u64 + FRAME_BYTES;
    let each = bytes.div_ceil(count);
    (0..bytes).step_by(each as usize).map(|at| (DATA + at, each.min(bytes - at) as u32)).collect()
}

/// The frame in as many pieces, each behind the first in another region than the one before.
fn scattered(count: u64, regions: u64) -> Pieces {
    let mut pieces = pieces(count);
    for (number, (address, _)) in (0..).zip(&mut pieces).skip(1) {
        *address = DATA + 2 * DATA_BYTES + 4096 * (number % regions);
    }
    pieces
}

/// For how long the switch's threads and this one have waited for a CPU that other threads had.
fn waited(switch: &SwitchProcess) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{}/task", switch.id())).unwrap();
    let threads = threads.map(|thread| thread.unwrap().path()).chain(["/proc/thread-self".into()]);
    let waited = threads.map(|thread| {
        let schedstat = std::fs::read_to_string(thread.join("schedstat")).unwrap();
        schedstat.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    });
    Duration::from_nanos(waited.sum())
}

/// Times from a frame's being sent until its receiver is called. Frames during which a thread of the switch or this one
/// waited for a CPU are sent and not counted: how busy the machine is makes no difference.
fn pings(switch: &SwitchProcess, one: &mut Guest, other: &mut Guest, times: &mut Vec<Duration>) {
    let (limit, wanted) = (Instant::now() + SOON, times.len() + 80);
    while times.len() < wanted {
        assert!(
            Instant::now() < limit,
            "threads wait for CPUs during nearly all frames: {} counted",
            times.len()
        );
        other.post(1);
        let (waited_before, since) = (waited(switch), Instant::now());
        one.send(&frame(1, 100));
        let call = other.call_of(RECEIVE);
        let called =
            poll(&mut [PollFd::new(call, PollFlags::IN)], Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
        assert_eq!(called, Ok(1), "the frame did not come");
        let time = since.elapsed();
        if waited(switch) - waited_before < AT_ONCE {
            times.push(time);
        }
        rustix::io::read(call, &mut [0; 8]).unwrap();
        other.wait_for_used(RECEIVE, 1);
        one.wait_for_used(TRANSMIT, 1);
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The time that so many of a hundred do not exceed.
fn percentile(times: &mut [Duration], hundredth: usize) -> Duration {
    times.sort();
    times[times.len() * hundredth / 100]
}

/// `times`: how many times as long as beside quiet ports half of the frames may take at most.
#[track_caller]
fn beside(what: &str, workers: usize, times: u32, pieces: impl FnOnce(&mut Guest) -> Pieces) {
    let sockets = Sockets::new();
    let ports = ["sender", "receiver", "one", "other"].map(|name| sockets.port(name, "vhost-user", ""));
    let wires = [connect("sender", "receiver"), connect("one", "other")];
    let on = ["--cpus".to_owned(), cpus(workers)];
    let switch = SwitchProcess::start(&[ports.concat(), wires.concat(), on.to_vec()].concat());
    let mut one = Guest::running(&sockets.path("one"), plain());
    let mut other = Guest::running(&sockets.path("other"), plain());
    let mut receiver = Guest::running(&sockets.path("receiver"), plain());
    let wanted = plain().union(Features::RING_INDIRECT_DESC).union(NetFeatures::CSUM);
    let mut sender = Guest::connect(&sockets.path("sender"), wanted);
    sender.size = 256;
    sender.share_memory();
    let pieces = pieces(&mut sender);
    sender.start_ring(TRANSMIT);
    // A checksum from behind the headers to the end is left to the switch.
    sender.write(DATA, &[1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0]);
    sender.write(DATA + HEADER as u64, &frame(1, FRAME_BYTES as usize));
    let mut frames = Tables::new(&sender, TRANSMIT, TABLE, &pieces);
    let [attacks, rests, over] = [const { AtomicBool::new(false) }; 3];
    let (mut quiet, mut hostile) = (Vec::new(), Vec::new());
    let laps = std::thread::scope(|scope| {
        let (sender, receiver, frames) = (&mut sender, &mut receiver, &mut frames);
        let (attacks, rests, over) = (&attacks, &rests, &over);
        let attacker = scope.spawn(move || {
            let mut laps = 0;
            while !over.load(Ordering::Relaxed) {
                let idle = laps == 0 || frames.is_used(sender);
                let attack = attacks.load(Ordering::Relaxed);
                if idle && attack {
                    frames.offer(sender);
                    laps += 1;
                }
                rests.store(idle && !attack, Ordering::Relaxed);
                post_large(receiver);
                std::thread::sleep(Duration::from_micros(100));
            }
            laps
        });
        for _ in 0..5 {
            wait_for("the end of an attack", || rests.load(Ordering::Relaxed).then_some(()));
            pings(&switch, &mut one, &mut other, &mut quiet);
            attacks.store(true, Ordering::Relaxed);
            wait_for("the next attack", || (!rests.load(Ordering::Relaxed)).then_some(()));
            pings(&switch, &mut one, &mut other, &mut hostile);
            attacks.store(false, Ordering::Relaxed);
        }
        over.store(true, Ordering::Relaxed);
        attacker.join().unwrap()
    });
    let [quiet, hostile] =
        [quiet, hostile].map(|mut times| [50, 99].map(|hundredth| percentile(&mut times, hundredth)));
    println!(
        "{workers} workers, {what}: median and 99th percentile {hostile:.1?}, quiet {quiet:.1?}; {laps} laps"
    );
    assert!(laps >= 5, "the attack was over before");
    assert!(
        hostile[0] <= times * quiet[0],
        "{workers} workers, {what}: median {hostile:.1?}, quiet {quiet:.1?}"
    );
    assert!(
        hostile[1] <= LONGEST,
        "{workers} workers, {what}: 99th percentile {hostile:.1?}, quiet {quiet:.1?}"
    );
    switch.end();
}

#[test]
fn a_sender_of_costly_frames_takes_no_more_than_a_slice() {
    // A slice has one frame at least. Code that is not optimized takes up to ten times the time for each of its pieces:
    // a neighbour's frame that meets a slice waits for 0.4 ms then, and whether half of the frames meet one is chance.
    // Without slices they wait for 2 to 4 ms.
    let times = if cfg!(debug_assertions) { 20 } else { 10 };
    for workers in [1, 2] {
        beside("64 KiB with a checksum to finish", workers, 10, |_| pieces(1));
        beside("the same in 1,000 pieces", workers, times, |_| pieces(1000));
        beside("the same in 500 regions", workers, times, |sender| {
            scattered(1000, many_regions(sender).into())
        });
    }
}
