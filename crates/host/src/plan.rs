//! What would make a host as a profile wants it. Changes nothing.

use serde::{Deserialize, Serialize};

use super::boot_line::BootLine;
use super::command_line::split;
use super::cpu_list::CpuList;
use super::rules::Change;
use super::survey::Profile;

/// One rule's changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRule {
    /// The rule's name.
    pub rule: String,
    /// What it is about.
    pub title: String,
    /// What was found.
    pub found: String,
    /// What a change may break.
    pub risk: String,
    /// Why `apply` wants `--accept RULE`: what it can cut or stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hazard: Option<String>,
    /// What to do, in order.
    pub changes: Vec<Change>,
}

impl PlannedRule {
    /// The changes that can be made while the host runs.
    pub fn at_run_time(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| matches!(change, Change::Set { .. }))
    }
}

/// What would make a host as a profile wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The form of this record.
    pub schema: String,
    /// For which use of the host.
    pub profile: Profile,
    /// The CPUs that are set aside.
    pub isolated: CpuList,
    /// CPUs that are set aside and do not run.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub isolated_offline: CpuList,
    /// The CPUs for everything else.
    pub housekeeping: CpuList,
    /// Rules that the host does not meet, in the order of the changes.
    pub rules: Vec<PlannedRule>,
    /// Rules whose state could not be read, so that nothing is planned for them, with the reason.
    pub unknown: Vec<(String, String)>,
    /// The kernel's command line, for each boot loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootLine>,
    /// The text of a profile for tuned that does the same.
    pub tuned: String,
}

impl Plan {
    /// The parameters for the kernel's command line.
    pub fn boot_parameters(&self) -> Vec<String> {
        boot_parameters(&self.rules)
    }

    /// Options of modules, with their modules, in the order of the rules.
    pub fn module_options(&self) -> Vec<(&str, &str)> {
        let mut options = Vec::new();
        for change in self.rules.iter().flat_map(|rule| &rule.changes) {
            if let Change::Module { module, option } = change {
                options.push((module.as_str(), option.as_str()));
            }
        }
        options
    }
}

/// All rules' parameters. Two that isolate CPUs become one with the flags of both.
pub(super) fn boot_parameters(rules: &[PlannedRule]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for change in rules.iter().flat_map(|rule| &rule.changes) {
        let Change::Boot { parameter } = change else { continue };
        let (key, value) = split(parameter);
        match all.iter_mut().find(|old| split(old).0 == key) {
            // Of the two, the one with more flags has those of the other.
            Some(old) if split(old).1.len() < value.len() => old.clone_from(parameter),
            Some(_) => {}
            None => all.push(parameter.clone()),
        }
    }
    all
}
