//! The settings of a measurement by `tautline tti`.

use std::time::Duration;

use ticks::{receiver, source};

/// The published limit for the time from the interrupt to guest user space.
pub const USUAL_BUDGET: Duration = Duration::from_micros(50);
/// The settings of `--spin` and `--priority`.
const USUAL_SPIN: Duration = Duration::from_micros(50);
const USUAL_PRIORITY: i32 = 80;
/// A receiver that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(5);

/// The settings of all rows.
#[derive(Clone)]
pub struct Job {
    /// The settings of the source.
    pub source: source::Plan,
    /// The settings of the receiver.
    pub receiver: receiver::Plan,
    /// The receiver's CPU, by the host's number.
    pub receiver_cpu: usize,
    /// Whether both kernels record traces of the stages between.
    pub stages: bool,
    /// The settings for raising the receiver by its hints, if it is raised.
    pub raise: Option<pv_sched::Settings>,
}

impl Job {
    /// The CPUs of the source and of the receiver, each once, by the host's numbers.
    pub fn cpus(&self) -> Vec<usize> {
        let source = self.source.cpu.filter(|cpu| *cpu != self.receiver_cpu);
        source.into_iter().chain([self.receiver_cpu]).collect()
    }

    /// Ticks of one interval from one CPU to another, with the command's default settings.
    pub fn usual(interval: Duration, time: Duration, [source_cpu, receiver_cpu]: [usize; 2]) -> Self {
        Job {
            source: source::Plan {
                interval,
                ticks: (time.as_nanos() / interval.as_nanos()).max(1) as u64,
                spin: USUAL_SPIN.min(interval / 2),
                cpu: Some(source_cpu),
                priority: Some(USUAL_PRIORITY + 1),
            },
            receiver: receiver::Plan {
                wait: receiver::Wait::Interrupt,
                priority: Some(USUAL_PRIORITY),
                interval_ns: interval.as_nanos() as u64,
                budget_ns: USUAL_BUDGET.as_nanos() as u64,
                hints: false,
                work_ns: 0,
                silence_ms: (SILENCE + interval * 2).as_millis() as u64,
            },
            receiver_cpu,
            stages: false,
            raise: None,
        }
    }
}
