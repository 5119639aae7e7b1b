//! `tautline vm`: guests with every thread on its CPU.

mod accelerator;
mod attach;
mod detached;
mod pv_sched;
mod run;
mod status;
mod task;
mod tell;

use anyhow::bail;
use vm::{CpuWishes, Shortfall};

use crate::cli::VmCommand;
use crate::cli::vm::PlaceThreads;
use crate::exit::{Done, Usage};

/// Runs the command.
pub fn run(command: &VmCommand) -> anyhow::Result<Done> {
    match command {
        VmCommand::Run(arguments) => run::run(arguments),
        VmCommand::Task(arguments) => task::run(arguments),
        VmCommand::Attach(arguments) => attach::attach(arguments),
        VmCommand::Detach(arguments) => attach::detach(arguments),
    }
}

impl PlaceThreads {
    fn wishes(&self, count: usize) -> anyhow::Result<CpuWishes> {
        let profile = vm::Profile::from(self.profile);
        if self.priority.is_some() && !profile.places_threads() {
            let text = "--priority: a plain guest's threads are left alone; name another --profile";
            return Err(Usage(text.into()).into());
        }
        for (option, list) in [("--vcpu-cpus", &self.vcpu_cpus), ("--housekeeping", &self.housekeeping)] {
            if list.as_ref().is_some_and(|list| list.is_empty()) {
                return Err(Usage(format!("{option}: it names no CPU; write for example 2-3")).into());
            }
        }
        let (vcpu_cpus, housekeeping) = (self.vcpu_cpus.clone(), self.housekeeping.clone());
        Ok(CpuWishes { profile, count, vcpu_cpus, housekeeping, priority: self.priority })
    }

    /// Reports the unmet wishes; returns an error if the user does not accept them.
    fn accept(&self, missing: &[Shortfall], so_far: &str) -> anyhow::Result<()> {
        for shortfall in missing {
            eprintln!("tautline: {shortfall}");
        }
        if !missing.is_empty() && !self.best_effort {
            bail!(
                "{} of the profile cannot be satisfied here; {so_far}; --best-effort continues without",
                match missing.len() {
                    1 => "a part".to_owned(),
                    count => format!("{count} parts"),
                }
            );
        }
        Ok(())
    }
}
