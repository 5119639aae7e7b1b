//! Two guests that do nothing wrong, and whose frames must all arrive whatever others do meanwhile.
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use peers::bystander::{Bystander, test_name};
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use traffic::frames::{Access, Checker, Fields, SizeMix, Stream};
use traffic::rig::TestRig;

use super::{SOON, wait_for};

/// Between two frames of each direction. The rings hold those of a quarter of a second.
const PAUSE: Duration = Duration::from_millis(1);

/// No peer may delay the bystanders' frames by more than this. The switch shares its CPUs with the tests, so some
/// of it is the machine's.
pub const MAX_LATENCY: Duration = Duration::from_millis(150);

/// The two guests, in a thread of their own.
pub struct Bystanders {
    /// Whose they are.
    pub test: String,
    end: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    /// Since it was last taken, and before.
    worst_ns: Arc<AtomicU64>,
    worst_taken_ns: AtomicU64,
    thread: Option<JoinHandle<Sent>>,
}

impl Bystanders {
    /// Plugs them in; returns once frames flow.
    pub fn start(sockets: [PathBuf; 2]) -> Self {
        let end = Arc::<AtomicBool>::default();
        let (arrived, worst_ns) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let thread = {
            let (end, arrived, worst_ns) = (Arc::clone(&end), Arc::clone(&arrived), Arc::clone(&worst_ns));
            std::thread::spawn(move || live(sockets, &end, &arrived, &worst_ns))
        };
        let (test, worst_taken_ns, thread) = (test_name(), AtomicU64::default(), Some(thread));
        let bystanders = Bystanders { test, end, arrived, worst_ns, worst_taken_ns, thread };
        bystanders.go_on();
        bystanders.forget_latencies();
        bystanders
    }

    /// What was so far is not the switch's: their own start, or what a test has done to all of it.
    pub fn forget_latencies(&self) {
        self.worst_ns.store(0, Ordering::Relaxed);
        self.worst_taken_ns.store(0, Ordering::Relaxed);
    }

    /// The worst latency since this was last asked, and begins anew.
    pub fn take_worst_latency(&self) -> Duration {
        let worst_ns = self.worst_ns.swap(0, Ordering::Relaxed);
        self.worst_taken_ns.fetch_max(worst_ns, Ordering::Relaxed);
        Duration::from_nanos(worst_ns)
    }

    /// Frames went on all along: none sent since the last call of this or of
    /// [`take_worst_latency`](Self::take_worst_latency) came later than [`MAX_LATENCY`]. Prints the worst.
    #[track_caller]
    pub fn assert_undisturbed(&self, by: &str) {
        self.go_on();
        let worst = self.take_worst_latency();
        let arrived = self.arrived.load(Ordering::Relaxed);
        println!("bystander beside {by}: worst latency {worst:.1?}, {arrived} frames each way so far");
        assert!(worst < MAX_LATENCY, "a bystander's frame took {worst:?} beside {by}");
    }

    /// Waits until frames have arrived that were sent after this call.
    #[track_caller]
    pub fn go_on(&self) {
        let before = self.arrived.load(Ordering::Relaxed);
        wait_for("the others' frames", || {
            assert!(!self.thread.as_ref().unwrap().is_finished(), "the others' traffic has ended");
            // More than both rings hold.
            (self.arrived.load(Ordering::Relaxed) > before + 20).then_some(())
        });
    }

    /// Nothing was lost, altered, doubled or reordered from beginning to end. Prints that, and the worst latency since
    /// the beginning, for readers of a passing test's output.
    pub fn all_is_well(mut self) {
        self.end.store(true, Ordering::Relaxed);
        let sent =
            self.thread.take().unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.take_worst_latency();
        let worst_latency = Duration::from_nanos(self.worst_taken_ns.load(Ordering::Relaxed));
        let Sent { frames: sent, lost } = sent;
        Bystander { worst_latency, sent, lost }.print(&self.test);
        assert_eq!(lost, 0);
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Of both directions together.
struct Sent {
    frames: u64,
    lost: u64,
}

fn live(sockets: [PathBuf; 2], end: &AtomicBool, arrived: &AtomicU64, worst_ns: &AtomicU64) -> Sent {
    let mut rig = TestRig::new();
    for path in &sockets {
        let port = VirtioUser::new(VirtioUserOptions::new(path)).unwrap();
        rig.attach(&path.display().to_string(), Box::new(port)).unwrap();
    }
    rig.wait_until_up(SOON).unwrap();
    let fields = Fields::default();
    let mixes = ["64x2+304x1+1522x1", "68x2+305x1+1521x1"].map(|mix| mix.parse::<SizeMix>().unwrap());
    let mut streams = mixes.clone().map(|mix| Stream::new(fields, &mix, 0..4).unwrap());
    let mut checkers = mixes.map(|mix| Checker::new(&fields, &mix, 4, Access::Payload));
    let mut deadline = None;
    let start = Instant::now();
    let now_ns = || start.elapsed().as_nanos() as u64;
    let mut looked_ns = now_ns();
    loop {
        let ending = end.load(Ordering::Relaxed);
        for (from, stream) in streams.iter_mut().enumerate() {
            let sink = rig.end(from).sinks().next().expect("the switch has closed a well-behaved port");
            if !ending && sink.room() > 0 {
                let (batch, which) = stream.burst(1, |_| now_ns());
                sink.accept(batch, which).unwrap();
            }
        }
        rig.attend(PAUSE).unwrap();
        // What this thread was away from its CPU for is not the switch's.
        let (now, before) = (now_ns(), looked_ns);
        looked_ns = now;
        let away_ns = (now - before).saturating_sub(PAUSE.as_nanos() as u64);
        for (from, checker) in checkers.iter_mut().enumerate() {
            let source = rig.end(1 - from).sources().next().expect("the switch has closed a port");
            for frame in source.rx_burst(64).unwrap().frames() {
                if let Some(stamp) = checker.check(frame) {
                    let latency_ns = (now - stamp.due_ns.min(now)).saturating_sub(away_ns);
                    worst_ns.fetch_max(latency_ns, Ordering::Relaxed);
                }
            }
            if source.needs_release() {
                source.release();
            }
        }
        let tallies = [0, 1].map(|lane: usize| checkers[lane].tally());
        arrived.store(tallies[0].distinct.min(tallies[1].distinct), Ordering::Relaxed);
        if !ending {
            continue;
        }
        let sent = [0, 1].map(|lane: usize| streams[lane].sent());
        let late = Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + SOON / 4);
        if late || tallies.map(|tally| tally.distinct) == sent {
            for tally in &tallies {
                let faults = (tally.altered, tally.doubled, tally.reordered, tally.stale, tally.foreign);
                assert_eq!(faults, (0, 0, 0, 0, 0), "{tally:?}");
            }
            let frames = sent.iter().sum();
            return Sent { frames, lost: frames - tallies.iter().map(|tally| tally.distinct).sum::<u64>() };
        }
    }
}
