//! Idle workers cost nothing, and wake for the first frame.
use std::fs;
use std::time::{Duration, Instant};

use switch::{Options, WorkerOptions};

use crate::bench::*;

/// CPU time of this process's threads of that name so far, as the kernel accounts it.
fn cpu_of_threads(name: &str) -> Duration {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // Threads of other tests come and go.
        let Ok(comm) = fs::read_to_string(task.join("comm")) else { continue };
        let Ok(schedstat) = fs::read_to_string(task.join("schedstat")) else { continue };
        if comm.trim() == name {
            total += schedstat.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    Duration::from_nanos(total)
}

#[test]
fn an_idle_worker_uses_less_than_a_hundredth_of_a_cpu() {
    // No other test has a seventh worker.
    let options = Options { workers: vec![None; 7], ..Options::default() };
    let (bench, mut hands) = Bench::learning(14, options);
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    receive(&mut hands[13].1);
    until("all workers sleep", || bench.snapshot().workers.iter().all(|worker| worker.sleeps > 0));
    let (since, before) = (Instant::now(), cpu_of_threads("worker-6"));
    assert!(before > Duration::ZERO, "the thread was found");
    std::thread::sleep(Duration::from_secs(2));
    let (time, used) = (since.elapsed(), cpu_of_threads("worker-6") - before);
    assert!(used < time / 100, "{used:?} of {time:?}");
    let snapshot = bench.stop();
    assert!(snapshot.workers[6].asleep_ns > 1_900_000_000, "{snapshot}");
}

#[test]
fn no_wake_up_is_lost() {
    let worker = WorkerOptions { spin: Duration::from_micros(20), ..WorkerOptions::default() };
    let (bench, mut hands) = Bench::learning(2, Options { worker, ..Options::default() });
    // Pauses around the time in which the worker goes to sleep, from a fixed sequence.
    let mut random = 0x2545_f491_4f6c_dd1du64;
    for n in 0..3000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let pause = Instant::now() + Duration::from_nanos(random % 120_000);
        while Instant::now() < pause {
            std::hint::spin_loop();
        }
        let (from, to) = if n % 2 == 0 { (0, 1) } else { (1, 0) };
        send(&mut hands[from].0, &frame(BROADCAST, station(1), n));
        assert_eq!(number(&receive(&mut hands[to].1)), n);
    }
    let snapshot = bench.stop();
    assert!(snapshot.workers[0].sleeps > 30, "it slept often enough to prove anything\n{snapshot}");
    assert_eq!(snapshot.dropped(), 0);
}

#[test]
fn the_phases_of_a_worker_add_up() {
    let before = Instant::now();
    let (bench, mut hands) = Bench::learning(2, Options::default());
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    receive(&mut hands[1].1);
    until("it sleeps", || bench.snapshot().workers[0].sleeps > 0);
    std::thread::sleep(Duration::from_millis(50));
    let worker = bench.snapshot().workers[0];
    let spent = worker.busy_ns + worker.spinning_ns + worker.asleep_ns;
    assert!(spent <= before.elapsed().as_nanos() as u64);
    assert!(spent >= 50_000_000 && worker.asleep_ns >= 40_000_000, "{worker:?}");
}
