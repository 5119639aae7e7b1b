//! Idle workers cost nothing, and wake for the first frame.
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{FrameBatch, QueueCounters, QueueError, RingState, Side, Source};
use port::PortContext;
use port::in_memory::testing::Injector;
use rustix::event::{EventfdFlags, eventfd};
use switch::{Options, PortOptions, WorkerCounts, WorkerOptions};
use virtio::net::NetHeader;

use crate::attaching::pair;
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

/// Waits until the only worker is asleep, and says what it did until then.
fn asleep(bench: &Bench) -> WorkerCounts {
    let mut counts = WorkerCounts::default();
    // A worker that nothing but descriptors wakes has begun one sleep more than were ended, or is awake.
    until("the worker sleeps", || {
        counts = bench.snapshot().workers[0];
        counts.sleeps == counts.wakes + 1
    });
    counts
}

#[test]
fn a_frame_after_idleness_takes_one_wake_up() {
    let (bench, mut hands) = Bench::learning(2, Options::default());
    // Each way once: all queues are in, no message is on its way that would wake the worker too.
    for (from, to) in [(0, 1), (1, 0)] {
        send(&mut hands[from].0, &frame(BROADCAST, station(1), 0));
        receive(&mut hands[to].1);
    }
    for n in 1..=50 {
        let before = asleep(&bench);
        send(&mut hands[0].0, &frame(BROADCAST, station(1), n));
        assert_eq!(number(&receive(&mut hands[1].1)), n);
        let now = asleep(&bench);
        assert_eq!((now.sleeps, now.wakes), (before.sleeps + 1, before.wakes + 1), "{before:?}, {now:?}");
    }
    bench.stop();
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
        send(&mut hands[from].0, &frame(BROADCAST, station(1 + from as u8), n));
        assert_eq!(number(&receive(&mut hands[to].1)), n);
    }
    let snapshot = bench.stop();
    assert!(snapshot.workers[0].sleeps > 30, "it slept often enough to prove anything\n{snapshot}");
    assert_eq!(snapshot.dropped(), 0);
}

/// The spin time of a worker that has a CPU of its own.
const SPIN: Duration = Duration::from_millis(20);

/// A source that a test reads for longer than its worker spins.
struct Looked(Box<dyn Source>);

impl Source for Looked {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        self.0.rx_burst(max)
    }
    fn needs_release(&self) -> bool {
        self.0.needs_release()
    }
    fn release(&mut self) {
        self.0.release();
    }
    fn sleep(&mut self) -> bool {
        self.0.sleep()
    }
    fn wake(&mut self) {
        self.0.wake();
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.wake_fd()
    }
    fn counters(&self) -> &Arc<QueueCounters> {
        self.0.counters()
    }
    fn ring(&self) -> Option<RingState> {
        std::thread::sleep(3 * SPIN);
        self.0.ring()
    }
}

/// Who looks at a queue holds it, and that may be the moment in which its worker wants to be woken by it.
#[test]
fn no_wake_up_is_lost_by_looking() {
    let cpu = linux::cpus::usable().unwrap()[0];
    let worker = WorkerOptions { spin: SPIN, ..WorkerOptions::default() };
    let options = Options { workers: vec![Some(cpu)], worker, ..Options::default() };
    let (mut switch, mut hands) = with_ports(&[1], options, |_| PortOptions::default());
    let ((inner, _), (mut injector, _)) = pair();
    let counters = Arc::clone(inner.counters());
    let start = move |context: &mut dyn PortContext| {
        context.attach_source(0, Box::new(Looked(inner)));
        Ok(())
    };
    let (mut port, _) = Scripted::new(1, start, |_, _| Ok(()));
    port.counters.push((0, Side::FromGuest, counters));
    switch.add_port("b", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    for n in 0..5 {
        send(&mut injector, &frame(BROADCAST, station(1), 2 * n));
        assert_eq!(number(&receive(&mut hands[0][0].1)), 2 * n);
        // The worker spins still when this begins, and wants to sleep before it ends.
        bench.change(|view| drop(view.rings()));
        send(&mut injector, &frame(BROADCAST, station(1), 2 * n + 1));
        assert_eq!(number(&receive(&mut hands[0][0].1)), 2 * n + 1);
    }
    bench.stop();
}

/// A source for which a frame arrives at the very moment in which its worker goes to sleep; no wake-up comes.
struct Late {
    inner: Box<dyn Source>,
    injector: Injector,
    never: OwnedFd,
    calls: u64,
}

impl Source for Late {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        self.inner.rx_burst(max)
    }
    fn needs_release(&self) -> bool {
        self.inner.needs_release()
    }
    fn release(&mut self) {
        self.inner.release();
    }
    fn sleep(&mut self) -> bool {
        self.calls += 1;
        self.calls <= 50
            && self.injector.inject(NetHeader::default(), &frame(BROADCAST, station(3), self.calls))
    }
    fn wake(&mut self) {}
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.never.as_fd())
    }
    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }
}

#[test]
fn a_worker_whose_source_says_that_something_is_there_does_not_sleep() {
    let (mut switch, mut hands) = with_ports(&[1], Options::default(), |_| PortOptions::default());
    let ((inner, _), (injector, _)) = pair();
    let never = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let late = Late { inner, injector, never, calls: 0 };
    let start = move |context: &mut dyn PortContext| {
        context.attach_source(0, Box::new(late));
        Ok(())
    };
    let (port, _) = Scripted::new(1, start, |_, _| Ok(()));
    switch.add_port("b", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    for n in 1..=50 {
        assert_eq!(number(&receive(&mut hands[0][0].1)), n);
    }
    bench.stop();
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

#[test]
fn some_of_the_passes_that_move_frames_are_timed() {
    let (bench, mut hands) = Bench::learning(2, Options::default());
    let mut sent = 0;
    until("a pass was timed", || {
        send(&mut hands[0].0, &frame(BROADCAST, station(1), sent));
        sent += 1;
        number(&receive(&mut hands[1].1)) == sent - 1 && bench.snapshot().workers[0].timed_frames > 0
    });
    settled(&bench, sent);
    let worker = bench.snapshot().workers[0];
    assert!(worker.timed_frames <= worker.frames && worker.frames == sent, "{worker:?}");
    let polled = worker.busy_ns + worker.spinning_ns;
    assert!(worker.timed_ns > 0 && worker.timed_ns <= polled, "{worker:?}");
}
