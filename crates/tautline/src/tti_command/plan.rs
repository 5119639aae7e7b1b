//! The plan that the arguments describe.

use environment::Spec;
use lab::PlannedEnvironment;
use lab::tti::{Job, Plan, USUAL_BUDGET};
use ticks::receiver;
use workload::ticks::Load;

use crate::cli::{Beside, Tti, Way};
use crate::cpu_list;
use crate::exit::Usage;

/// Reads and checks the arguments; changes nothing.
pub fn read(arguments: &Tti) -> anyhow::Result<Plan> {
    Ok(Plan {
        job: job(arguments)?,
        environments: PlannedEnvironment::read_list(&arguments.environments, refused)
            .map_err(|error| Usage(error.to_string()))?,
        loads: arguments.load.iter().map(|load| load_of(*load)).collect(),
        pv_sched_rounds: arguments.pv_sched.then_some(arguments.rounds),
    })
}

fn job(arguments: &Tti) -> anyhow::Result<Job> {
    let cpus = cpu_list::read("--cpus", arguments.cpus.as_deref())?;
    if arguments.cpus.is_some() && cpus.len() != 2 {
        return Err(Usage("--cpus: name two, of the source and of the receiver".into()).into());
    }
    let (source_cpu, receiver_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    let wait = match arguments.wait {
        Way::Interrupt => receiver::Wait::Interrupt,
        Way::Poll if source_cpu == receiver_cpu => {
            let remedy = "--wait poll: both ends share one CPU; give the receiver one of its own";
            return Err(Usage(remedy.into()).into());
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

/// Why an environment receives no ticks.
fn refused(spec: &Spec) -> Option<&'static str> {
    matches!(spec, Spec::Remote(_)).then_some("ticks come from this machine, and are received on it")
}

fn load_of(beside: Beside) -> Option<Load> {
    match beside {
        Beside::None => None,
        Beside::Cpu => Some(Load::Cpu),
        Beside::Memory => Some(Load::Memory),
        Beside::Io => Some(Load::Io),
        Beside::Network => Some(Load::Network),
    }
}
