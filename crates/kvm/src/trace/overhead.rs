//! The cost of the tracing itself for an exit: a guest of this program exits to user space while the tracer's triggers
//! are active, and before and after that.

use std::sync::mpsc;
use std::time::Duration;

use measure::Failure;
use serde::{Deserialize, Serialize};

/// How long a guest may take; a `/dev/kvm` that cannot run it may hang.
const LIMIT: Duration = Duration::from_secs(5);

/// Times of one exit to user space and back, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Before tracing.
    pub before_ns: f64,
    /// While tracing.
    pub traced_ns: f64,
    /// After tracing.
    pub after_ns: f64,
}

impl Overhead {
    /// The time that tracing adds to an exit, in ns.
    pub fn exit_ns(&self) -> f64 {
        (self.traced_ns - (self.before_ns + self.after_ns) / 2.0).max(0.0)
    }

    /// The difference of the two measurements without tracing, ns. A smaller cost of tracing cannot be distinguished
    /// from zero.
    pub fn spread_ns(&self) -> f64 {
        (self.before_ns - self.after_ns).abs()
    }

    /// The share of the time of `vcpus` virtual CPUs that tracing took.
    pub fn share(&self, exits: u64, vcpus: usize, seconds: f64) -> f64 {
        self.exit_ns() * exits as f64 / 1e9 / (seconds * vcpus.max(1) as f64).max(1e-9)
    }
}

/// A guest whose exits are timed, on a separate thread.
pub struct Probe {
    ask: mpsc::Sender<()>,
    answers: mpsc::Receiver<Result<f64, Failure>>,
}

impl Probe {
    /// Starts the thread. Its first answer says whether a guest can run on this machine.
    pub fn start() -> Self {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        // The thread ends when the requesting end is dropped; a thread that hangs in KVM_RUN ends with the process.
        std::thread::spawn(move || serve(&asked, &answer));
        Self { ask, answers }
    }

    /// How long one exit takes at present, in ns: the fastest of nine batches of 500.
    ///
    /// # Errors
    /// The guest cannot be made or run, its thread has ended, or it does not answer within 5 s.
    pub fn exit_ns(&self) -> Result<f64, Failure> {
        let failed = |said: &str| {
            Failure::new("timing the exits of a guest of our own", said, "see what `tautline kvm costs` says")
        };
        self.ask.send(()).map_err(|_| failed("its thread has ended"))?;
        self.answers.recv_timeout(LIMIT).unwrap_or_else(|error| Err(failed(&error.to_string())))
    }
}

fn serve(asked: &mpsc::Receiver<()>, answer: &mpsc::Sender<Result<f64, Failure>>) {
    /// Exits in a batch.
    const BATCH: usize = 500;
    const BATCHES: usize = 9;
    let mut guest = crate::KnownGuest::prepare();
    while asked.recv().is_ok() {
        let found = match &mut guest {
            Err(failure) => Err(failure.clone()),
            Ok(guest) => (0..BATCHES)
                .map(|_| {
                    let start = std::time::Instant::now();
                    guest.write(BATCH).map(|()| start.elapsed().as_nanos() as f64 / BATCH as f64)
                })
                .collect::<Result<Vec<f64>, _>>()
                .map(|found| found.into_iter().fold(f64::INFINITY, f64::min)),
        };
        if answer.send(found).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tracing_adds() {
        let overhead = Overhead { before_ns: 1000.0, traced_ns: 1600.0, after_ns: 1200.0 };
        assert_eq!((overhead.exit_ns(), overhead.spread_ns()), (500.0, 200.0));
        // 500 ns for each of a million exits are half of a second, of two virtual CPUs' 5 s.
        assert!((overhead.share(1_000_000, 2, 5.0) - 0.05).abs() < 1e-12);
        let faster = Overhead { before_ns: 2.0, traced_ns: 1.0, after_ns: 2.0 };
        assert_eq!(faster.exit_ns(), 0.0);
    }
}
