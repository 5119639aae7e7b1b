//! What is asked for.

use std::time::Duration;

use ticks::{receiver, source};

use crate::cli::{Tti, Way};
use crate::cpu_list;
use crate::exit::Usage;

/// What the published requirement allows from the interrupt to guest user space.
const USUAL_BUDGET: Duration = Duration::from_micros(50);
/// As `--spin` and `--priority` have them.
const USUAL_SPIN: Duration = Duration::from_micros(50);
const USUAL_PRIORITY: i32 = 80;
/// A receiver that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(5);

/// What is the same for all rows.
#[derive(Clone)]
pub struct Job {
    pub source: source::Plan,
    pub receiver: receiver::Plan,
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

    /// Reads and checks the arguments; changes nothing.
    pub fn from_arguments(arguments: &Tti) -> anyhow::Result<Self> {
        let cpus = cpu_list::read("--cpus", arguments.cpus.as_deref())?;
        if arguments.cpus.is_some() && cpus.len() != 2 {
            return Err(Usage("--cpus: name two, of the source and of the receiver".into()).into());
        }
        let (source_cpu, receiver_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        let wait = match arguments.wait {
            Way::Interrupt => receiver::Wait::Interrupt,
            Way::Poll if source_cpu == receiver_cpu => {
                return Err(Usage(
                    "--wait poll: both ends share one CPU; give the receiver one of its own".into(),
                )
                .into());
            }
            Way::Poll => receiver::Wait::Poll,
            Way::Timer => receiver::Wait::Timer,
        };
        if arguments.stages && wait != receiver::Wait::Interrupt {
            let remedy = "--stages: they are the interrupt's; leave --wait out";
            return Err(Usage(remedy.into()).into());
        }
        let mut job = Job::usual(arguments.interval, arguments.time, [source_cpu, receiver_cpu]);
        let priority = i32::from(arguments.priority);
        job.source.spin = arguments.spin.min(arguments.interval / 2);
        job.source.priority = Some(priority + 1);
        job.receiver.wait = wait;
        job.receiver.priority = (priority > 0).then_some(priority);
        job.receiver.budget_ns = arguments.budget.unwrap_or(USUAL_BUDGET).as_nanos() as u64;
        job.receiver.work_ns = arguments.work.as_nanos() as u64;
        job.stages = arguments.stages;
        Ok(job)
    }
}
