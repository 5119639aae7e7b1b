//! `tautline vm run`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use environment::Janitor;
use environment::janitor::Leftover;
use host::HostTree;
use linux::interrupt;
use pv_sched::Claim;
use vm::arguments::{self, Boot, GuestSettings, Serial};
use vm::assign::{self, Assigned, IommuGroup};
use vm::{Accelerator, Event, Guest, HostCpus, Plan, Profile, QemuVersion, Shortfall};

use super::accelerator;
use super::pv_sched::{PvSched, RaisedStatus, Raising};
use super::status::{State, Status};
use super::tell::tell;
use crate::cli::vm::VmRun;
use crate::exit::{Done, Usage};
use crate::host_command::describe;
use crate::output::{self, Sink};

/// The time between two checks of the guest's threads.
const LOOK: Duration = Duration::from_millis(200);

/// Starts a guest, and keeps its threads in place until it ends.
pub fn run(arguments: &VmRun) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let to_stdout = arguments.serial.as_deref() == Some(Path::new("-"));
    if to_stdout && sink.is_json_printed() {
        let text =
            "--serial - and --format json both print to the standard output; name a file for one of them";
        return Err(Usage(text.into()).into());
    }
    let count = match &arguments.place.vcpu_cpus {
        Some(cpus) => cpus.len(),
        None => arguments.cpus.unwrap_or(1).into(),
    };
    let wishes = arguments.place.wishes(count)?;
    let profile = wishes.profile;
    let qemu = environment::vm::find_qemu()?;
    let version = QemuVersion::of(&qemu);
    let plan = Plan::make(wishes, &HostCpus::here(&[])?, Some(arguments.memory), arguments.hugepages);
    let tree = HostTree::live();
    let groups = assign::groups(&tree, &arguments.assign)?;
    let pv_sched = arguments.pv_sched.then(|| PvSched::plan(profile, &plan.placement)).transpose()?;
    let mut show = Show {
        sink,
        profile,
        plan: &plan,
        groups: &groups,
        line: String::new(),
        corrected: 0,
        raised: pv_sched.as_ref().map(|_| PvSched::status(Vec::new())),
    };
    if arguments.dry_run {
        let accelerator = accelerator::likely(arguments.accel);
        let settings = settings(arguments, &plan, pv_sched.as_ref(), (version, accelerator));
        show.line = arguments::for_a_shell(&qemu, &arguments::arguments(&settings, &plan.placement));
        show.planned(&settings)?;
        return Ok(Done::Whole);
    }
    arguments.place.accept(&plan.missing, "nothing was started")?;
    let claims = pv_sched.as_ref().map(PvSched::claim).transpose()?.unwrap_or_default();
    output::catch_interrupts()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Arc::new(Janitor::start(&binary)?);
    let accelerator = accelerator::find(arguments.accel, &janitor)?;
    let settings = settings(arguments, &plan, pv_sched.as_ref(), (version, accelerator));
    show.line = arguments::for_a_shell(&qemu, &arguments::arguments(&settings, &plan.placement));

    assign::recover(&tree, &assign::journals(), |entry, outcome| {
        output::remark(&format!(
            "tautline: left by a command that was killed: {}",
            describe(entry, outcome).trim_end()
        ));
    });
    let journal = assign::journal(&assign::journals());
    let leftover = Leftover::Journal(journal.clone());
    let mut assigned = None;
    if !arguments.assign.is_empty() {
        janitor.made(&leftover);
        assigned = Some(Assigned::bind(&tree, &arguments.assign, &journal)?);
    }
    // Its end comes before its devices are given back.
    let ended =
        Guest::start(&qemu, &settings, &plan.placement).map_err(anyhow::Error::from).and_then(|guest| {
            look_after(guest, arguments, &settings, pv_sched.map(|it| (it, claims)), &mut show)
        });
    let mut kept = 0;
    if let Some(assigned) = assigned {
        kept = assigned.give_back(|entry, outcome| {
            output::remark(&format!("tautline: {}", describe(entry, outcome).trim_end()))
        })?;
        janitor.remove(&leftover);
    }
    ended?;
    if kept > 0 {
        bail!(
            "{kept} devices were not given back, for the reasons above; `tautline vm detach --pid {}` tries again",
            std::process::id()
        );
    }
    Ok(Done::Whole)
}

fn settings(
    arguments: &VmRun,
    plan: &Plan,
    pv_sched: Option<&PvSched>,
    (qemu, accelerator): (QemuVersion, Accelerator),
) -> GuestSettings {
    GuestSettings {
        qemu,
        hardware: plan.hardware(accelerator),
        boot: match &arguments.kernel {
            Some(kernel) => Boot::Kernel {
                kernel: kernel.clone(),
                initrd: arguments.initrd.clone(),
                append: arguments.append.clone(),
            },
            None => Boot::Disk,
        },
        disk: arguments.disk.clone(),
        networks: arguments.network.clone(),
        serial: match &arguments.serial {
            None => Serial::None,
            Some(file) if file == Path::new("-") => Serial::Stdout,
            Some(file) => Serial::File(file.clone()),
        },
        shared: pv_sched.map(PvSched::memory),
        assigned: arguments.assign.clone(),
        further: arguments.further.clone(),
    }
}

fn look_after(
    mut guest: Guest,
    arguments: &VmRun,
    settings: &GuestSettings,
    pv_sched: Option<(PvSched, Vec<Claim>)>,
    show: &mut Show<'_>,
) -> anyhow::Result<()> {
    let missing = guest.shortfalls();
    // Dropped, QEMU ends before its guest has run.
    arguments.place.accept(&missing, "the guest was not let run")?;
    let mut raising =
        pv_sched.map(|(pv_sched, claims)| pv_sched.start(claims, &guest.threads())).transpose()?;
    guest.run()?;
    show.put(State::Running, &guest, settings, &missing)?;
    let mut locked = guest.memory_locked_mib();
    loop {
        if interrupt::is_set() {
            show.raised(raising.take());
            guest.end(arguments.grace);
            show.put(State::Ended, &guest, settings, &missing)?;
            return Err(interrupt::Interrupted.into());
        }
        if let Some(ended) = guest.ended_within(LOOK) {
            show.raised(raising.take());
            ended?;
            return show.put(State::Ended, &guest, settings, &missing);
        }
        let events = guest.look()?;
        tell(&events);
        show.corrected +=
            events.iter().filter(|event| matches!(event, Event::Corrected { .. })).count() as u64;
        let now = guest.memory_locked_mib();
        let enough = |locked: Option<u64>| locked.is_none_or(|mib| mib >= settings.hardware.memory_mib);
        if settings.hardware.locked && enough(locked) && !enough(now) {
            output::remark("tautline: a program unlocked the guest's memory; only QEMU can lock it again");
        }
        locked = now;
    }
}

/// The output about the guest, and its destination.
struct Show<'a> {
    sink: Sink,
    profile: Profile,
    plan: &'a Plan,
    groups: &'a [IommuGroup],
    line: String,
    corrected: u64,
    raised: Option<RaisedStatus>,
}

impl Show<'_> {
    /// Ends the raising, and keeps its results.
    fn raised(&mut self, raising: Option<Raising>) {
        if let Some(raising) = raising {
            self.raised = Some(PvSched::status(raising.end()));
        }
    }

    fn status<'s>(&'s self, state: State, settings: &GuestSettings, not_done: &'s [Shortfall]) -> Status<'s> {
        Status {
            accelerator: Some(match settings.hardware.accelerator {
                Accelerator::Kvm => environment::vm::kvm_name(),
                Accelerator::Tcg => "tcg (emulated)".into(),
            }),
            memory_mib: Some(settings.hardware.memory_mib),
            huge_page_kib: settings.hardware.huge_pages.map(|pages| pages.kib),
            iommu_groups: self.groups,
            pv_sched: self.raised.as_ref(),
            command_line: Some(&self.line),
            ..Status::new(state, self.profile, &self.plan.placement, not_done)
        }
    }

    fn planned(&self, settings: &GuestSettings) -> anyhow::Result<()> {
        self.status(State::Planned, settings, &self.plan.missing).put(&self.sink)
    }

    fn put(
        &self,
        state: State,
        guest: &Guest,
        settings: &GuestSettings,
        missing: &[Shortfall],
    ) -> anyhow::Result<()> {
        let not_done: Vec<Shortfall> = self.plan.missing.iter().chain(missing).cloned().collect();
        let status = Status {
            process: Some(guest.process()),
            memory_locked_mib: guest.memory_locked_mib(),
            threads: guest.threads(),
            corrected: self.corrected,
            ..self.status(state, settings, &not_done)
        };
        status.put(&self.sink)
    }
}
