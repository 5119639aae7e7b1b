//! The guest's side of a watch: records the guest's events on its own clock.

use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;
use serde::{Deserialize, Serialize};

use super::guest::{Arrival, GuestFollower};
use super::latest::{Latest, Span};
use crate::events::{Arrived, Pipe, Rate, Selection, Trace};

/// The folder in which a guest mounts tracefs.
const TRACEFS: &str = "/sys/kernel/tracing";
/// The most arrivals in one answer; the latest are kept.
const MOST_ARRIVALS: usize = 10_000;
/// Readings for one answer: what the kernel goes on to write meanwhile is for the next.
const MOST_READINGS: usize = 4;

/// The events since the last request, in ticks of the guest's time-stamp counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct News {
    /// Threads that reached user space after an interrupt.
    pub arrivals: Vec<Arrival>,
    /// Events that were lost.
    pub lost: u64,
}

/// Records the events of this machine, which is a guest. Times are ticks of its time-stamp counter.
pub struct GuestRecorder {
    pipe: Pipe,
    follower: GuestFollower,
    latest: Latest,
    /// The result of the next call of [`GuestRecorder::news`].
    news: News,
    /// Dropped last, when all files of the instance are closed.
    _instance: Instance,
}

/// An instance of tracefs, removed on drop.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

impl GuestRecorder {
    /// Starts recording in a separate tracing instance.
    ///
    /// # Errors
    /// The instance cannot be made (tracefs is not mounted, or no root), or the kernel lacks a required event.
    pub fn start() -> Result<Self, Failure> {
        let own = std::process::id();
        let path = Path::new(TRACEFS).join("instances").join(format!("tautline-{own}"));
        fs::create_dir(&path).map_err(|error| {
            let remedy = "run as root; mount -t tracefs tracefs /sys/kernel/tracing";
            Failure::new(format!("making {}", path.display()), error, remedy)
        })?;
        let instance = Instance(path);
        // The recorder's own system calls are no thread's arrival. Linux 5.8 and later can.
        let _ = fs::write(instance.0.join("set_event_notrace_pid"), own.to_string());
        let pipe = Pipe::start(&instance.0, &Selection::INSIDE, &[], Rate::of_ns())?;
        let (follower, latest, news) = Default::default();
        Ok(Self { pipe, follower, latest, news, _instance: instance })
    }

    /// Returns the arrivals since the last call.
    ///
    /// # Errors
    /// The kernel refuses to read `trace_pipe`.
    pub fn news(&mut self) -> Result<News, Failure> {
        self.read()?;
        Ok(std::mem::take(&mut self.news))
    }

    /// The events in some spans of time, as far as they are still kept.
    ///
    /// # Errors
    /// The kernel refuses to read `trace_pipe`.
    pub fn told(&mut self, spans: &[Span]) -> Result<Trace, Failure> {
        self.read()?;
        Ok(self.latest.of(spans))
    }

    fn read(&mut self) -> Result<(), Failure> {
        let (news, mut arrived) = (&mut self.news, Vec::new());
        for _ in 0..MOST_READINGS {
            let has_more = self.pipe.read(&mut arrived)?;
            for one in arrived.drain(..) {
                match one {
                    Arrived::Event(event, name) => {
                        news.arrivals.extend(self.follower.follow(&event));
                        self.latest.keep(event, name);
                    }
                    Arrived::Gap(lost) => {
                        news.lost = news.lost.saturating_add(lost);
                        self.follower.gap();
                        self.latest.gap();
                    }
                }
            }
            if !has_more {
                break;
            }
        }
        let older = news.arrivals.len().saturating_sub(MOST_ARRIVALS);
        news.arrivals.drain(..older);
        Ok(())
    }
}
