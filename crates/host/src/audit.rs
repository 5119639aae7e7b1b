//! What all rules say of a host.

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::rules::{self, State, Takes};
use super::survey::{Profile, Survey};

/// What one rule says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// What it is about.
    pub title: String,
    /// How the host stands.
    pub state: State,
    /// What was found, or why it could not be.
    pub found: String,
    /// What is wanted.
    pub wanted: String,
    /// Why, in one line.
    pub why: String,
    /// The source of the rule.
    pub source: String,
    /// What a change may break.
    pub risk: String,
    /// What a change takes.
    pub takes: Takes,
}

/// What all rules of a profile say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The form of this record.
    pub schema: String,
    /// For which use of the host.
    pub profile: Profile,
    /// The host's online CPUs.
    pub online: CpuList,
    /// The CPUs that are set aside, or are to be.
    pub isolated: CpuList,
    /// The CPUs that are set aside and do not run.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub isolated_offline: CpuList,
    /// The CPUs for all other work.
    pub housekeeping: CpuList,
    /// In the rules' order.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Asks every rule of the profile.
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

    /// How many rules have this state.
    pub fn count(&self, state: State) -> usize {
        self.findings.iter().filter(|finding| finding.state == state).count()
    }

    /// Whether the host meets every rule. A rule whose state is unknown is not met.
    pub fn passed(&self) -> bool {
        self.count(State::Fail) == 0 && self.count(State::Unknown) == 0
    }
}
