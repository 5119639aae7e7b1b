//! What is asked for.

use std::time::Duration;

use ticks::{receiver, source};

/// What the published requirement allows from the interrupt to guest user space.
pub const USUAL_BUDGET: Duration = Duration::from_micros(50);
/// As `--spin` and `--priority` have them.
const USUAL_SPIN: Duration = Duration::from_micros(50);
const USUAL_PRIORITY: i32 = 80;
/// A receiver that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(5);

/// What is the same for all rows.
#[derive(Clone)]
pub struct Job {
    /// What the source does.
    pub source: source::Plan,
    /// What the receiver does.
    pub receiver: receiver::Plan,
    /// The CPU to receive on, by the host's number.
    pub receiver_cpu: usize,
    /// Whether kernels write traces of what is between.
    pub stages: bool,
    /// How the receiver is raised by its hints, if it is.
    pub raise: Option<pv_sched::Settings>,
}

impl Job {
    /// Ticks of one interval from one CPU to another, as the command sends them where nothing else is asked for.
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
