//! The longest burst through a real device of known buffer: rings in memory, and a thread that takes one frame
//! after another, slowly.
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use port::in_memory::{InMemory, QueueOptions};
use traffic::frames::{Access, Fields, FrameSize, SizeMix};
use traffic::path::{Path, Profile, Topology};
use traffic::rig::TestRig;
use traffic::search::rfc2544::{BackToBack, BackToBackPlan, Burst, back_to_back};
use traffic::search::{Budget, Fraction, Load, Verification};

const BUFFER: u16 = 256;
const BURST_FPS: u64 = 200_000;
/// At least: a sleep may take longer, never shorter.
const EACH: Duration = Duration::from_micros(200);

/// From port 0 of the rig to port 1, one frame at a time.
fn forward_slowly(mut rig: TestRig, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = rig.two_ends(0, 1).unwrap();
        let source = from.sources().next().unwrap();
        let batch = source.rx_burst(1).unwrap();
        to.sinks().next().unwrap().accept(batch, if batch.is_empty() { &[] } else { &[0] }).unwrap();
        if source.needs_release() {
            source.release();
        }
        std::thread::sleep(EACH);
    }
}

#[test]
fn the_longest_burst_is_the_buffer_and_what_went_meanwhile() {
    let options = QueueOptions { slots: BUFFER, frame_bytes: 2048, ..QueueOptions::default() };
    let (from, device_in) = InMemory::pair(1, options).unwrap();
    let (device_out, to) = InMemory::pair(1, options).unwrap();
    let rig = |ports: [InMemory; 2]| {
        let mut rig = TestRig::new();
        for port in ports {
            rig.attach("memory", Box::new(port)).unwrap();
        }
        rig
    };
    let (tester, device) = (rig([from, to]), rig([device_in, device_out]));
    let stop = Arc::new(AtomicBool::new(false));
    let forwards = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || forward_slowly(device, stop)
    });

    let profile =
        Profile { fields: Fields::default(), flows: 1, access: Access::Payload, bidirectional: false };
    let mut path = Path::new(tester, Topology::Through, profile);
    // After a loss the whole residual time passes; the buffer is empty after a fifth of it.
    let residual = Duration::from_millis(300);
    let mut loaded = path.load(&SizeMix::fixed(FrameSize::MIN), residual).unwrap();
    let plan = BackToBackPlan {
        max_rate: Load::new(BURST_FPS).unwrap(),
        throughput: Load::new(1_000_000_000 / EACH.as_nanos() as u64).unwrap(),
        max_burst: Burst::new(5000).unwrap(),
        first_burst: Burst::new(64),
        width: Fraction::ZERO,
        verification: Verification::NONE,
        repeats: NonZeroU32::new(2).unwrap(),
    };
    // A busy machine disturbs many.
    let budget = Budget { attempts: NonZeroU32::new(1000).unwrap(), ..Budget::default() };
    let found = back_to_back(plan, &budget, |burst, rate| Ok(loaded.burst(burst, rate)?.0), |_| ());
    stop.store(true, Ordering::Relaxed);
    forwards.join().unwrap();
    let found: Result<BackToBack, traffic::rig::RigError> = found;
    let Ok(BackToBack::Measured { statistics: Some(statistics), cut: None, .. }) = found else {
        panic!("{found:?}")
    };
    println!("{statistics:?}");
    // What is taken while the burst is on its way, late as it may be, and what the thread has in its hands.
    let meanwhile = u64::from(BUFFER) * 1_000_000_000 / BURST_FPS / EACH.as_nanos() as u64 + 10;
    let longest = statistics.min_frames..=statistics.max_frames;
    assert!(*longest.start() >= u64::from(BUFFER), "{statistics:?}");
    assert!(*longest.end() <= u64::from(BUFFER) + meanwhile, "{statistics:?}");
    let buffered = statistics.corrected_buffer_seconds * BURST_FPS as f64;
    assert!((buffered / f64::from(BUFFER) - 1.0).abs() < 0.1, "{buffered}");
}
