//! Plans the changes with which a host meets a profile. Changes nothing.

use serde::{Deserialize, Serialize};

use super::boot_line::BootLine;
use super::command_line::split;
use super::cpu_list::CpuList;
use super::rules::Change;
use super::survey::Profile;

/// The changes of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRule {
    /// The rule's name.
    pub rule: String,
    /// The subject of the rule.
    pub title: String,
    /// The value that was found.
    pub found: String,
    /// The things that a change may break.
    pub risk: String,
    /// The reason why `apply` requires `--accept RULE`: the connections or programs that the change can cut or stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hazard: Option<String>,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

impl PlannedRule {
    /// The changes that can be made while the host runs.
    pub fn at_run_time(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| matches!(change, Change::Set { .. }))
    }
}

/// The changes with which a host meets a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of this record's format.
    pub schema: String,
    /// The profile of the plan.
    pub profile: Profile,
    /// The CPUs that are set aside.
    pub isolated: CpuList,
    /// CPUs that are set aside and are offline.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub isolated_offline: CpuList,
    /// The CPUs for all other work.
    pub housekeeping: CpuList,
    /// The rules that the host does not meet, in the order of the changes.
    pub rules: Vec<PlannedRule>,
    /// The rules whose state could not be read, each with the reason; the plan has no changes for them.
    pub unknown: Vec<(String, String)>,
    /// The change of the kernel's command line, for each boot loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootLine>,
    /// The text of a profile for tuned that makes the same changes.
    pub tuned: String,
}

impl Plan {
    /// The parameters for the kernel's command line.
    pub fn boot_parameters(&self) -> Vec<String> {
        boot_parameters(&self.rules)
    }

    /// Options of kernel modules, each with its module, in the order of the rules.
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

/// The parameters of all rules. Two parameters that isolate CPUs are merged into one with the flags of both.
pub(super) fn boot_parameters(rules: &[PlannedRule]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for change in rules.iter().flat_map(|rule| &rule.changes) {
        let Change::Boot { parameter } = change else { continue };
        let (key, value) = split(parameter);
        match all.iter_mut().find(|old| split(old).0 == key) {
            // The parameter with more flags includes the flags of the other one.
            Some(old) if split(old).1.len() < value.len() => old.clone_from(parameter),
            Some(_) => {}
            None => all.push(parameter.clone()),
        }
    }
    all
}
