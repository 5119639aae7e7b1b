//! `tautline vm attach` and `detach`: placing the threads of a guest that another program started.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use host::HostTree;
use vm::attach::{self as running, ToldBy};
use vm::{HostCpus, Plan, Qmp, Roles, Watch, assign, libvirt};

use super::detached::Detached;
use super::status::{State, Status};
use super::tell::tell;
use crate::cli::vm::{RunningGuest, VmAttach, VmDetach};
use crate::exit::Done;
use crate::output::{self, Sink};

const ANSWER: Duration = Duration::from_secs(10);
/// Threads that come while others are placed are placed too; a guest that makes them without an end ends this.
const LOOKS: usize = 10;

/// Its process, and what libvirt says of its threads.
fn find(guest: &RunningGuest) -> anyhow::Result<(u32, Roles, ToldBy)> {
    Ok(match (&guest.domain, guest.pid) {
        (Some(name), _) => {
            let domain = libvirt::find(name, &libvirt::folders())?;
            (domain.process, domain.roles, ToldBy::Libvirt)
        }
        (None, Some(pid)) => (pid, Roles::default(), ToldBy::Qemu),
        (None, None) => unreachable!("clap requires one"),
    })
}

fn journal_of(process: u32, named: Option<&PathBuf>) -> PathBuf {
    named.cloned().unwrap_or_else(|| running::journal_of(process))
}

/// Prints the present threads, and places each as the profile says.
pub fn attach(arguments: &VmAttach) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let (process, mut roles, told_by) = find(&arguments.guest)?;
    if told_by == ToldBy::Libvirt {
        running::count_vcpus(process, &roles, told_by)?;
    }
    let mut memory_mib = None;
    let mut monitor = None;
    if let Some(socket) = &arguments.qmp {
        let told = Qmp::connect(socket, ANSWER).and_then(|mut qmp| {
            roles = qmp.roles()?;
            memory_mib = Some(qmp.memory_mib()?);
            monitor = Some(qmp);
            Ok(())
        });
        told.map_err(|error| error.failure(&format!("asking QEMU at {}", socket.display())))?;
    }
    let count = running::count_vcpus(process, &roles, ToldBy::Qemu)?;
    let wishes = arguments.place.wishes(count)?;
    let profile = wishes.profile;
    let mut plan = Plan::make(wishes, &HostCpus::here(&[])?, None, false);
    plan.missing.extend(running::memory_not_locked(process, memory_mib, profile));

    let journal = journal_of(process, arguments.journal.as_ref());
    let mut watch = if arguments.dry_run {
        Watch::new(process, plan.placement.clone()).looking_only()
    } else {
        arguments.place.accept(&plan.missing, "nothing was changed")?;
        running::watch(process, &plan.placement, &journal)?
    };
    for _ in 0..LOOKS {
        let events = watch.look(|| match &mut monitor {
            Some(qmp) => qmp.roles().ok(),
            None => Some(roles.clone()),
        })?;
        tell(&events);
        if events.is_empty() {
            break;
        }
    }
    let refused = watch.shortfalls();
    let threads = watch.threads();
    drop(watch);
    if !arguments.dry_run
        && let Err(error) = arguments.place.accept(&refused, "everything was restored")
    {
        running::put_back(&journal, |_, _| {})?;
        return Err(error);
    }
    plan.missing.extend(refused);
    let state = if arguments.dry_run { State::Planned } else { State::Running };
    let status = Status {
        process: Some(process),
        memory_mib,
        memory_locked_mib: vm::locked_mib(&HostTree::live(), process.cast_signed()),
        threads,
        ..Status::new(state, profile, &plan.placement, &plan.missing)
    };
    status.put(&sink)?;
    if !arguments.dry_run {
        let guest = match &arguments.guest.domain {
            Some(name) => name.clone(),
            None => format!("--pid {process}"),
        };
        let own = arguments.journal.as_ref().map(|file| format!(" --journal {}", file.display()));
        output::remark(&format!("`tautline vm detach {guest}{}` puts it back", own.unwrap_or_default()));
    }
    Ok(Done::Whole)
}

/// Restores the former placement.
pub fn detach(arguments: &VmDetach) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let (process, ..) = find(&arguments.guest)?;
    let journal = journal_of(process, arguments.journal.as_ref());
    let mut detached = Detached::new(process, &journal);
    let failures = running::put_back(&journal, |entry, outcome| detached.note(entry, outcome))?;
    // A command that was killed, and whose janitor was too.
    assign::recover(&HostTree::live(), &assign::journals(), |entry, outcome| detached.note(entry, outcome));
    detached.put(&sink)?;
    if failures > 0 {
        bail!(
            "{failures} values were not restored; the journal is kept: remove the reasons above and call detach again"
        );
    }
    Ok(Done::Whole)
}
