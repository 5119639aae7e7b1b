//! Computes the share of its time that a packet thread worked.
//!
//! Only polls that moved at least one packet count as work. DPDK and Open vSwitch count the cycles of those polls;
//! this project's ends time one of 16 polls.
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::ovs::PmdStats;
use crate::testpmd::ForwardStats;

/// A thread's counters at one moment, all counted since the same beginning.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The time since the beginning, in ns.
    pub elapsed_ns: f64,
    /// The received frames, or the generated frames if the thread only sends.
    pub frames: f64,
    /// The use of the time.
    pub spent: Spent,
}

/// The use of the time.
#[derive(Clone, Copy, Debug)]
pub enum Spent {
    /// A sample of the polls that moved at least one packet: their time and their frames.
    Timed {
        /// Their time.
        busy_ns: f64,
        /// Their frames.
        frames: f64,
    },
    /// The cycles of polls that moved at least one packet, and the clock frequency if it is already known.
    Cycles {
        /// The cycles since the beginning.
        busy: f64,
        /// Their clock.
        mhz: Option<f64>,
    },
    /// A sender: its cycles are not meaningful, and bursts for which there was no space count as idle time.
    Sending {
        /// Frames.
        offered: f64,
        /// Frames for which there was no space.
        refused: f64,
    },
}

/// The work of a thread between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The fraction of time without work; for a sender, the fraction of frames for which there was no space.
    pub idle: Option<f64>,
    /// The time of work for each frame, in ns.
    pub busy_ns_per_frame: Option<f64>,
}

impl Reading {
    /// A reading of testpmd's forwarding thread.
    pub fn of_testpmd(stats: &ForwardStats, sends_only: bool, elapsed_ns: f64) -> Self {
        if sends_only {
            let (offered, refused) = (stats.tx_total as f64, stats.tx_dropped as f64);
            return Reading {
                elapsed_ns,
                frames: offered - refused,
                spent: Spent::Sending { offered, refused },
            };
        }
        let spent = Spent::Cycles { busy: stats.busy_cycles as f64, mhz: stats.mhz.map(|mhz| mhz as f64) };
        Reading { elapsed_ns, frames: stats.rx_packets as f64, spent }
    }

    /// A reading of Open vSwitch's packet thread.
    pub fn of_ovs(stats: &PmdStats, elapsed_ns: f64) -> Self {
        let spent = Spent::Cycles { busy: stats.busy_cycles as f64, mhz: None };
        Reading { elapsed_ns, frames: stats.rx_packets as f64, spent }
    }

    /// The usage of an end that is a program of this project, from its counters as JSON.
    ///
    /// # Errors
    /// `timed_ns`, `timed_frames` or `frames` is missing or is not a number.
    pub fn of_ours(counts: &Value, elapsed_ns: f64) -> Result<Self, Error> {
        let missing = |name: &str| Error::refused(format!("reading '{name}'"), counts.to_string());
        let number = |name: &str| counts[name].as_f64().ok_or_else(|| missing(name));
        let spent = Spent::Timed { busy_ns: number("timed_ns")?, frames: number("timed_frames")? };
        Ok(Reading { elapsed_ns, frames: number("frames")?, spent })
    }

    /// The frequency of the cycle clock in MHz; it is the same for all threads, and testpmd reports it.
    pub fn mhz(&self) -> Option<f64> {
        match self.spent {
            Spent::Cycles { mhz, .. } => mhz,
            _ => None,
        }
    }

    /// The work of the thread from this reading to a later one, with this frequency of the cycle clock.
    pub fn until(&self, after: &Reading, mhz: Option<f64>) -> Usage {
        let elapsed_ns = after.elapsed_ns - self.elapsed_ns;
        let frames = after.frames - self.frames;
        let busy_ns = match (self.spent, after.spent) {
            (
                Spent::Timed { busy_ns, frames: timed },
                Spent::Timed { busy_ns: busy_after, frames: timed_after },
            ) => {
                let timed = timed_after - timed;
                (timed > 0.0).then(|| (busy_after - busy_ns) / timed * frames)
            }
            (Spent::Cycles { busy, .. }, Spent::Cycles { busy: busy_after, .. }) => {
                mhz.map(|mhz| (busy_after - busy).max(0.0) * 1e3 / mhz)
            }
            (Spent::Sending { offered, refused }, Spent::Sending { offered: offers, refused: refusals }) => {
                let idle = (offers > offered).then(|| (refusals - refused) / (offers - offered));
                return Usage { idle, busy_ns_per_frame: None };
            }
            _ => None,
        };
        Usage {
            idle: busy_ns.filter(|_| elapsed_ns > 0.0).map(|busy| (1.0 - busy / elapsed_ns).clamp(0.0, 1.0)),
            busy_ns_per_frame: busy_ns.filter(|_| frames > 0.0).map(|busy| busy / frames),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all_frames_and_cycles_for_time() {
        let reading = |elapsed_ns, frames, spent| Reading { elapsed_ns, frames, spent };
        let timed = |busy_ns, frames| Spent::Timed { busy_ns, frames };
        let before = reading(100.0, 10.0, timed(7.0, 3.0));
        let usage = before.until(&reading(1100.0, 50.0, timed(57.0, 7.0)), None);
        assert_eq!(usage, Usage { idle: Some(0.5), busy_ns_per_frame: Some(12.5) });
        assert_eq!(before.until(&reading(1100.0, 10.0, timed(7.0, 3.0)), None), Usage::default());
        let stats =
            |rx_packets, busy_cycles| ForwardStats { rx_packets, busy_cycles, ..ForwardStats::default() };
        let of = |stats, elapsed_ns| Reading::of_testpmd(&stats, false, elapsed_ns);
        let usage = of(stats(0, 0), 0.0).until(&of(stats(1000, 20_000), 20_000.0), Some(2000.0));
        assert_eq!(usage, Usage { idle: Some(0.5), busy_ns_per_frame: Some(10.0) });
        let sender = ForwardStats { tx_total: 1000, tx_dropped: 100, ..ForwardStats::default() };
        let of = |stats| Reading::of_testpmd(&stats, true, 1.0);
        assert_eq!(of(ForwardStats::default()).until(&of(sender), None).idle, Some(0.1));
    }
}
