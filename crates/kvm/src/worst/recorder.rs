//! The guest's end of a watch: its own flight recorder, on its own clock.

use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;
use serde::{Deserialize, Serialize};

use super::guest::{Arrival, GuestFollower};
use crate::events::{Arrived, FlightRecorder, Pipe, Rate, Selection, Trace};

/// A guest mounts it there.
const TRACEFS: &str = "/sys/kernel/tracing";
/// One answer holds no more than that: the latest.
const MOST_ARRIVALS: usize = 10_000;
const MOST_EVENTS: usize = 20_000;

/// What came since it was asked last, in ticks of the guest's counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct News {
    /// Threads that came to user space after an interrupt.
    pub arrivals: Vec<Arrival>,
    /// Events that were lost.
    pub lost: u64,
}

/// Records what happens in this machine, which is a guest. Times are ticks of its time-stamp counter.
pub struct GuestRecorder {
    flight: FlightRecorder,
    pipe: Pipe,
    follower: GuestFollower,
    /// Removed last, when nobody has a file of them open.
    _instances: Instances,
}

/// Instances of tracefs, which go again.
struct Instances(Vec<PathBuf>);

impl Drop for Instances {
    fn drop(&mut self) {
        self.0.iter().for_each(|instance| {
            let _ = fs::remove_dir(instance);
        });
    }
}

impl GuestRecorder {
    /// Starts.
    ///
    /// # Errors
    /// A kernel without tracefs, without an event that there must be, or without the right to it.
    pub fn start() -> Result<Self, Failure> {
        let mut instances = Instances(Vec::new());
        let own = std::process::id();
        for number in 0..3 {
            let instance = Path::new(TRACEFS).join("instances").join(format!("tautline-{own}-{number}"));
            fs::create_dir(&instance).map_err(|error| {
                let remedy = "run as root; mount -t tracefs tracefs /sys/kernel/tracing";
                Failure::new(format!("making {}", instance.display()), error, remedy)
            })?;
            instances.0.push(instance);
        }
        let [first, second, third] = &instances.0[..] else { unreachable!("three were made") };
        for instance in &instances.0 {
            // What is done to record is no thread's arrival. Linux 5.8 and later can.
            let _ = fs::write(instance.join("set_event_notrace_pid"), own.to_string());
        }
        let rate = Rate::of_ns();
        let flight = FlightRecorder::start([first, second], &Selection::INSIDE, &[], rate)?;
        let pipe = Pipe::start(third, &Selection::ARRIVALS, &[], rate)?;
        Ok(Self { flight, pipe, follower: GuestFollower::default(), _instances: instances })
    }

    /// What came since.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn news(&mut self) -> Result<News, Failure> {
        let (mut news, mut arrived) = (News::default(), Vec::new());
        self.pipe.read(&mut arrived)?;
        for one in arrived {
            match one {
                Arrived::Event(event) => news.arrivals.extend(self.follower.follow(&event)),
                Arrived::Gap(lost) => {
                    news.lost = news.lost.saturating_add(lost);
                    self.follower.gap();
                }
            }
        }
        let older = news.arrivals.len().saturating_sub(MOST_ARRIVALS);
        news.arrivals.drain(..older);
        Ok(news)
    }

    /// What was recorded last. Recording goes on meanwhile.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn freeze(&mut self) -> Result<Trace, Failure> {
        let mut trace = self.flight.freeze()?;
        let older = trace.events.len().saturating_sub(MOST_EVENTS);
        trace.events.drain(..older);
        Ok(trace)
    }
}
