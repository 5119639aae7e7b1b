//! The status of a guest, for the outputs.

use std::fmt::Write;

use comfy_table::{LineStyle, Table, TableStyle};
use serde::Serialize;
use vm::assign::IommuGroup;
use vm::{Placement, Role, Shortfall, ThreadStatus};

use super::pv_sched::RaisedStatus;
use crate::output::Sink;

/// The schema of this version's documents.
const SCHEMA: &str = "tautline-vm/1";

/// The state of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing was started or changed.
    Planned,
    /// The guest runs, every thread in its place.
    Running,
    /// The guest has ended, or was ended; the threads are those of the last check.
    Ended,
}

/// The document that is written.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    pub schema: &'static str,
    pub tautline: &'static str,
    pub state: State,
    pub profile: &'static str,
    /// `None` if unknown, for a guest that another program started.
    pub accelerator: Option<String>,
    pub process: Option<u32>,
    pub memory_mib: Option<u64>,
    pub memory_locked_mib: Option<u64>,
    pub huge_page_kib: Option<u64>,
    pub placement: &'a Placement,
    pub threads: Vec<ThreadStatus>,
    /// How often a thread had to be put back on its CPU.
    pub corrected: u64,
    pub iommu_groups: &'a [IommuGroup],
    /// The raising of vCPUs, if the guest asks for it.
    pub pv_sched: Option<&'a RaisedStatus>,
    pub not_done: &'a [Shortfall],
    /// QEMU's command line, quoted for a shell.
    pub command_line: Option<&'a str>,
}

impl<'a> Status<'a> {
    /// A status with these fields and no others.
    pub fn new(
        state: State,
        profile: vm::Profile,
        placement: &'a Placement,
        not_done: &'a [Shortfall],
    ) -> Self {
        Status {
            schema: SCHEMA,
            tautline: env!("CARGO_PKG_VERSION"),
            state,
            profile: profile.name(),
            accelerator: None,
            process: None,
            memory_mib: None,
            memory_locked_mib: None,
            huge_page_kib: None,
            placement,
            threads: Vec::new(),
            corrected: 0,
            iommu_groups: &[],
            pv_sched: None,
            not_done,
            command_line: None,
        }
    }

    /// Prints or writes the status.
    pub fn put(&self, sink: &Sink) -> anyhow::Result<()> {
        sink.put(|_, _| self.text(), || Ok(serde_json::to_string(self)?))
    }

    fn text(&self) -> String {
        let mut text = match self.state {
            State::Planned => "Planned".to_owned(),
            State::Running => "Running".to_owned(),
            State::Ended => "Ended".to_owned(),
        };
        let _ = write!(text, ", profile {}", self.profile);
        if let Some(process) = self.process {
            let _ = write!(text, ", process {process}");
        }
        if let Some(accelerator) = &self.accelerator {
            let _ = write!(text, ", {accelerator}");
        }
        if let Some(locked) = self.memory_locked_mib {
            let _ = write!(text, ", {locked} MiB locked");
        }
        if let Some(kib) = self.huge_page_kib {
            let _ = write!(text, ", huge pages of {} MiB", kib >> 10);
        }
        text += "\n\n";
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        if self.state == State::Planned && self.threads.is_empty() {
            self.planned(&mut table);
        } else {
            self.found(&mut table);
        }
        let _ = writeln!(text, "{table}");
        for group in self.iommu_groups {
            let _ = writeln!(text, "\nIOMMU group {}:", group.number);
            for device in &group.devices {
                let driver = device.driver.as_deref().unwrap_or("no driver");
                let fate = match (device.assigned, &device.stays) {
                    (true, _) => "handed on",
                    (false, Some(why)) => why,
                    (false, None) => "stays",
                };
                let provides = device.provides.join(" ");
                let _ = writeln!(text, "  {} {} {driver} {provides}: {fate}", device.address, device.id);
            }
        }
        if let Some(raised) = self.pv_sched {
            let _ = writeln!(text, "\n{raised}");
        }
        if self.corrected > 0 {
            let _ = writeln!(text, "\n{} changes by other programs were undone", self.corrected);
        }
        for shortfall in self.not_done {
            let _ = writeln!(text, "\n{shortfall}");
        }
        if let Some(line) = self.command_line.filter(|_| self.state == State::Planned) {
            let _ = writeln!(text, "\n{line}");
        }
        text
    }

    fn planned(&self, table: &mut Table) {
        table.set_header(["thread", "CPUs", "policy"]);
        let vcpus = (0..self.placement.vcpus.len()).map(Role::Vcpu);
        for role in vcpus.chain([Role::Emulator, Role::Io, Role::Vhost, Role::Kernel]) {
            let wanted = self.placement.wanted(role);
            let cpus = wanted.cpus.map_or("any".into(), |cpus| cpus.to_string());
            let policy = wanted.scheduling.map_or("as it is".into(), |policy| policy.to_string());
            table.add_row([role.to_string(), cpus, policy]);
        }
    }

    fn found(&self, table: &mut Table) {
        table.set_header(["thread", "id", "name", "CPUs", "policy", ""]);
        for thread in &self.threads {
            let mut remarks = Vec::new();
            let parts = [
                (&thread.found.cpus, &thread.now.cpus, &thread.wanted.cpus),
                (&thread.found.scheduling, &thread.now.scheduling, &thread.wanted.scheduling),
            ];
            for (found, now, wanted) in parts {
                match wanted {
                    Some(wanted) if now != wanted => remarks.push(format!("wanted {wanted}")),
                    _ if found != now => remarks.push(format!("was {found}")),
                    _ => {}
                }
            }
            if thread.corrected > 0 {
                remarks.push(format!("restored {} times", thread.corrected));
            }
            remarks.extend(thread.refused.clone());
            table.add_row([
                thread.role.to_string(),
                thread.id.to_string(),
                thread.name.clone(),
                thread.now.cpus.clone(),
                thread.now.scheduling.clone(),
                remarks.join("; "),
            ]);
        }
    }
}
