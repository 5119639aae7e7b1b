//! The requested measurement.

use environment::Spec;
use environment::vm::Machine;
use lab::PlannedEnvironment;
use lab::chains::Job;
use scenario::Description;
use scenario::description::BUILT_IN;

use crate::cli::Scenario;
use crate::cpu_list;
use crate::exit::Usage;

/// Reads and checks the arguments; changes nothing.
pub fn read(arguments: &Scenario) -> anyhow::Result<Job> {
    let mut description = describe(arguments)?;
    let load = &mut description.load;
    let set = |field: &mut u32, value: Option<u32>| *field = value.unwrap_or(*field);
    set(&mut load.cells, arguments.cells);
    set(&mut load.bytes, arguments.bytes);
    set(&mut load.workers, arguments.workers);
    set(&mut load.users, arguments.users);
    set(&mut description.deadline_us, arguments.deadline.map(|deadline| deadline.as_micros() as u32));
    description.check().map_err(|error| Usage(error.to_string()))?;
    Ok(Job {
        ticks: (arguments.time.as_nanos() / description.interval().as_nanos()).max(1) as u64,
        environments: PlannedEnvironment::read_list(&arguments.environments, refused)
            .map_err(|error| Usage(error.to_string()))?,
        users: arguments.users,
        repeat: arguments.repeat,
        missed_per_thousand: arguments.missed_per_thousand,
        within_percent: arguments.within,
        cpus: cpu_list::read("--cpus", arguments.cpus.as_deref())?,
        is_bound: arguments.cpus.is_some(),
        priority: arguments.priority.map(i32::from),
        description,
    })
}

fn describe(arguments: &Scenario) -> anyhow::Result<Description> {
    let path = arguments.scenario.clone().unwrap_or_default();
    let built_in = BUILT_IN.iter().find(|(name, _)| path.as_os_str() == *name);
    let read;
    let text = match built_in {
        Some((_, text)) => *text,
        None => {
            read = std::fs::read_to_string(&path).map_err(|error| {
                let names = BUILT_IN.map(|(name, _)| name).join(", ");
                Usage(format!(
                    "reading the scenario {}: {error}; name a file or one of {names}",
                    path.display()
                ))
            })?;
            &read
        }
    };
    Ok(Description::parse(text).map_err(|error| Usage(format!("{}: {error}", path.display())))?)
}

/// Why no member can be in an environment.
fn refused(spec: &Spec) -> Option<&'static str> {
    match spec {
        spec if spec.partition().is_some() => Some("members share the CPUs of the switch"),
        Spec::Vm(settings) if settings.profile.is_some() => Some("a member's guest has no profile"),
        Spec::Vm(settings) if settings.machine == Machine::Microvm => Some("a member's guest has PCI"),
        Spec::Host | Spec::Container(_) | Spec::Partition(_) | Spec::Vm(_) => None,
        Spec::Remote(_) => Some("members are on this machine, at one switch"),
    }
}
