//! Follows latencies for as long as is asked for, and has each new maximum's events kept.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use environment::Janitor;
use kvm::events::{Arrived, FlightRecorder, Pipe, Rate, Selection, Target};
use kvm::worst::{Follower, Kept, Watched};
use linux::interrupt;

use crate::output;
use crate::tracing::Made;

/// Between two looks at what came. The flight recorder's buffers hold far more.
const LOOK: Duration = Duration::from_millis(20);
/// At first nearly each latency is the longest so far, and none of them is worth a look.
const WARMUP: Duration = Duration::from_secs(1);

/// All stages, whichever is watched: a budget may have limits for each.
pub struct Found {
    stages: [Kept; 2],
    /// Events that were lost on the way; no latency goes across.
    pub lost: u64,
    /// For how long.
    pub elapsed: Duration,
}

/// The stages.
pub const STAGES: [Watched; 2] = [Watched::WakeUp, Watched::Interrupt];

impl Found {
    /// What is known of one stage.
    pub fn of(&self, stage: Watched) -> &Kept {
        &self.stages[place(stage)]
    }
}

fn place(stage: Watched) -> usize {
    STAGES.iter().position(|one| *one == stage).expect("all of them are listed")
}

/// Until the time is over, the process has ended, or SIGINT.
pub fn follow(target: &Target, watched: Watched, time: Duration) -> anyhow::Result<Found> {
    let tracefs = kvm::trace::tracefs()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Janitor::start(&binary)?;
    let mut made = Made::by(&janitor);
    let (first, second, third) =
        (made.instance(&tracefs)?, made.instance(&tracefs)?, made.instance(&tracefs)?);
    let (rate, threads) = (Rate::measure(), &target.threads);
    let mut flight = FlightRecorder::start([&first, &second], &Selection::BLAME, threads, rate)?;
    let mut pipe = Pipe::start(&third, &Selection::LATENCIES, threads, rate)?;
    let mut followers = STAGES.map(|stage| Follower::new(stage, target));
    let mut found = Found { stages: Default::default(), lost: 0, elapsed: Duration::ZERO };
    let process = Path::new("/proc").join(target.pid.to_string());
    let mut arrived = Vec::new();
    let start = Instant::now();
    let progress = output::progress();
    progress.doing(format!("watching process {}; Ctrl-C ends it", target.pid));
    loop {
        found.elapsed = start.elapsed();
        let is_over = found.elapsed >= time || interrupt::is_set() || !process.exists();
        let has_more = pipe.read(&mut arrived)?;
        for one in arrived.drain(..) {
            match one {
                Arrived::Event(event) => {
                    for (follower, kept) in followers.iter_mut().zip(&mut found.stages) {
                        follower.follow(&event).into_iter().for_each(|latency| kept.count(latency));
                    }
                }
                Arrived::Gap(lost) => {
                    found.lost = found.lost.saturating_add(lost);
                    followers.iter_mut().for_each(Follower::gap);
                }
            }
        }
        let kept = &mut found.stages[place(watched)];
        if is_over || kept.is_new() && found.elapsed >= WARMUP {
            kept.look(&flight.freeze()?, target, watched);
            progress.doing(format!(
                "watching process {}: the longest of {} so far took {:.1} µs; Ctrl-C ends it",
                target.pid,
                kept.histogram().count(),
                kept.histogram().max_ns() as f64 / 1e3
            ));
        }
        if is_over {
            break;
        }
        if !has_more {
            sleep(LOOK.min(time.saturating_sub(found.elapsed)));
        }
    }
    progress.finish();
    Ok(found)
}
