//! How much of its time a side of the rings was at work.
//!
//! Only polls that moved something count as work. DPDK and Open vSwitch count the cycles of those polls; our
//! ends time one of 16.

/// One look at a thread's counters, all since some beginning.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub elapsed_ns: f64,
    /// Frames taken in, or made where it only sends.
    pub frames: f64,
    pub spent: Spent,
}

/// Where the time went.
#[derive(Clone, Copy, Debug)]
pub enum Spent {
    /// A sample of the polls that moved something: their time and their frames.
    Timed { busy_ns: f64, frames: f64 },
    /// Cycles of polls that moved something, and the clock where it is known already.
    Cycles { busy: f64, mhz: Option<f64> },
    /// A sender whose cycles say nothing: bursts that found no room are counted as its idle time.
    Sending { offered: f64, refused: f64 },
}

/// What a thread did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Share of time without work; of a sender, share of frames for which there was no room.
    pub idle_share: Option<f64>,
    /// Nanoseconds of work for each frame.
    pub busy_ns_per_frame: Option<f64>,
}

impl Reading {
    /// `mhz` is the clock of cycles.
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
            (Spent::Cycles { busy, .. }, Spent::Cycles { busy: busy_after, mhz: own }) => {
                own.or(mhz).map(|mhz| (busy_after - busy).max(0.0) * 1e3 / mhz)
            }
            (
                Spent::Sending { offered, refused },
                Spent::Sending { offered: offered_after, refused: refused_after },
            ) => {
                let offered = offered_after - offered;
                let idle_share = (offered > 0.0).then(|| (refused_after - refused) / offered);
                return Usage { idle_share, busy_ns_per_frame: None };
            }
            _ => None,
        };
        Usage {
            idle_share: busy_ns
                .filter(|_| elapsed_ns > 0.0)
                .map(|busy| (1.0 - busy / elapsed_ns).clamp(0.0, 1.0)),
            busy_ns_per_frame: busy_ns.filter(|_| frames > 0.0).map(|busy| busy / frames),
        }
    }
}

/// What testpmd says of all its ports on `show fwd stats all`, with `--record-core-cycles`.
pub fn of_testpmd(text: &str, sends_only: bool, elapsed_ns: f64) -> Option<Reading> {
    let whole = text.split("Accumulated forward statistics").nth(1)?;
    let number = |text: &str, after: &str| -> Option<f64> {
        let rest = text.split(after).nth(1)?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    if sends_only {
        let (offered, refused) = (number(whole, "TX-total:")?, number(whole, "TX-dropped:")?);
        let spent = Spent::Sending { offered, refused };
        return Some(Reading { elapsed_ns, frames: offered - refused, spent });
    }
    let frames = number(whole, "RX-packets:")?;
    // Older versions call them total, but count those of polls that moved something as well.
    let busy = match number(whole, "(busy cycles=").or_else(|| number(whole, "(total cycles=")) {
        // Nothing is said of cycles before the first packet.
        None if frames == 0.0 => 0.0,
        busy => busy?,
    };
    Some(Reading { elapsed_ns, frames, spent: Spent::Cycles { busy, mhz: number(whole, ") at ") } })
}

/// What Open vSwitch says of its one packet thread on `dpif-netdev/pmd-stats-show`.
pub fn of_ovs(text: &str, elapsed_ns: f64) -> Option<Reading> {
    let thread = text.split("pmd thread").nth(1)?.split("main thread").next()?;
    let number = |name: &str| -> Option<f64> {
        thread.split(name).nth(1)?.trim_start_matches(':').split_whitespace().next()?.parse().ok()
    };
    let spent = Spent::Cycles { busy: number("processing cycles")?, mhz: None };
    Some(Reading { elapsed_ns, frames: number("packets received")?, spent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all_frames() {
        let reading = |elapsed_ns, frames, busy_ns, timed| Reading {
            elapsed_ns,
            frames,
            spent: Spent::Timed { busy_ns, frames: timed },
        };
        let before = reading(100.0, 10.0, 7.0, 3.0);
        let usage = before.until(&reading(1100.0, 50.0, 57.0, 7.0), None);
        assert_eq!(usage, Usage { idle_share: Some(0.5), busy_ns_per_frame: Some(12.5) });
        assert_eq!(before.until(&reading(1100.0, 10.0, 7.0, 3.0), None), Usage::default());
    }

    #[test]
    fn what_testpmd_says_is_understood() {
        let text = "  ---- Forward statistics for port 0  ----\n  RX-packets: 7 RX-dropped: 0 RX-total: 7\n\
                    +++++ Accumulated forward statistics for all ports+++++\n  \
                    RX-packets: 1000           RX-dropped: 0             RX-total: 1000\n  \
                    TX-packets: 900            TX-dropped: 100           TX-total: 1000\n  ++++\n\n  \
                    CPU cycles/packet=20.00 (total cycles=20000 / total RX packets=1000) at 2000 MHz Clock\n";
        let before =
            of_testpmd("Accumulated forward statistics RX-packets: 0 RX-dropped: 0", false, 0.0).unwrap();
        let usage = before.until(&of_testpmd(text, false, 20_000.0).unwrap(), None);
        assert_eq!(usage, Usage { idle_share: Some(0.5), busy_ns_per_frame: Some(10.0) });
        // Newer versions.
        let newer = of_testpmd(&text.replace("(total cycles=", "(busy cycles="), false, 20_000.0).unwrap();
        assert_eq!(before.until(&newer, None), usage);
        // Frames that took no cycles are not believed.
        assert!(of_testpmd(&text.replace("cycles=", "turns="), false, 20_000.0).is_none());
        let sender = of_testpmd(text, true, 1.0).unwrap();
        let nothing =
            Reading { elapsed_ns: 0.0, frames: 0.0, spent: Spent::Sending { offered: 0.0, refused: 0.0 } };
        assert_eq!(nothing.until(&sender, None).idle_share, Some(0.1));
        assert_eq!(sender.frames, 900.0);
    }

    #[test]
    fn what_open_vswitch_says_is_understood() {
        let text = "pmd thread numa_id 0 core_id 1:\n  packets received: 500\n  packet recirculations: 0\n  \
                    idle cycles: 100 (10.00%)\n  processing cycles: 900 (90.00%)\nmain thread:\n  packets received: 3\n";
        let reading = of_ovs(text, 5.0).unwrap();
        assert_eq!(reading.frames, 500.0);
        assert!(matches!(reading.spent, Spent::Cycles { busy: 900.0, mhz: None }));
        assert!(of_ovs("main thread:\n packets received: 3", 5.0).is_none());
    }
}
