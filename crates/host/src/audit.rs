//! The results of all rules for a host.

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::rules::{self, State, Takes};
use super::survey::{Profile, Survey};

/// The result of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// The subject of the rule.
    pub title: String,
    /// Whether the host meets the rule.
    pub state: State,
    /// The value that was found, or the reason why it could not be read.
    pub found: String,
    /// The wanted value.
    pub wanted: String,
    /// The reason for the rule, in one line.
    pub why: String,
    /// The source of the rule.
    pub source: String,
    /// The things that a change may break.
    pub risk: String,
    /// The action that a change requires.
    pub takes: Takes,
}

/// The results of all rules of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The version of this record's format.
    pub schema: String,
    /// The profile of the audit.
    pub profile: Profile,
    /// The host's online CPUs.
    pub online: CpuList,
    /// The CPUs that are set aside, or are to be set aside.
    pub isolated: CpuList,
    /// The CPUs that are set aside and are offline.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub isolated_offline: CpuList,
    /// The CPUs for all other work.
    pub housekeeping: CpuList,
    /// The results, in the rules' order.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Checks every rule of the profile.
    pub fn of(survey: &Survey) -> Self {
        let profile = survey.wishes.profile;
        let findings = rules::all().filter(|rule| rule.profiles.contains(&profile)).map(|rule| {
            let verdict = rule.look(survey);
            Finding {
                rule: rule.id.into(),
                title: rule.title.into(),
                state: verdict.state,
                found: verdict.found,
                wanted: verdict.wanted,
                why: rule.why.into(),
                source: rule.source.into(),
                risk: rule.risk.into(),
                takes: rule.takes,
            }
        });
        Audit {
            schema: "tautline-host-audit/1".into(),
            profile,
            online: survey.online.clone(),
            isolated: survey.isolated.clone(),
            isolated_offline: survey.isolated_offline.clone(),
            housekeeping: survey.housekeeping(),
            findings: findings.collect(),
        }
    }

    /// The number of rules with this state.
    pub fn count(&self, state: State) -> usize {
        self.findings.iter().filter(|finding| finding.state == state).count()
    }

    /// Whether the host meets every rule. A rule whose state is unknown counts as not met.
    pub fn passed(&self) -> bool {
        self.count(State::Fail) == 0 && self.count(State::Unknown) == 0
    }
}
