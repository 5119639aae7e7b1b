//! What is asked for.

use std::time::Duration;

use ticks::{receiver, source};

use crate::cli::{Tti, Way};
use crate::cpu_list;
use crate::exit::Usage;

/// What the published requirement allows from the interrupt to guest user space.
const USUAL_BUDGET: Duration = Duration::from_micros(50);
/// A receiver that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(5);

/// What is the same for all rows.
pub struct Job {
    pub source: source::Plan,
    pub receiver: receiver::Plan,
    pub receiver_cpu: usize,
}

impl Job {
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
        };
        let budget = arguments.budget.unwrap_or(USUAL_BUDGET);
        let priority = i32::from(arguments.priority);
        let ticks = (arguments.time.as_nanos() / arguments.interval.as_nanos()).max(1) as u64;
        Ok(Job {
            source: source::Plan {
                interval: arguments.interval,
                ticks,
                spin: arguments.spin.min(arguments.interval / 2),
                cpu: Some(source_cpu),
                priority: Some(priority + 1),
            },
            receiver: receiver::Plan {
                wait,
                priority: Some(priority),
                budget_ns: budget.as_nanos() as u64,
                silence_ms: (SILENCE + arguments.interval * 2).as_millis() as u64,
            },
            receiver_cpu,
        })
    }
}
