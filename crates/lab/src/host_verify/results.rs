//! The results file of `host verify`: every sample, and the effects derived from them.

use host::{Broken, CpuList, Profile, Survey};
use measure::Failure;
#[cfg(any(test, feature = "example"))]
use measure::host_facts::HostFacts;
use serde::{Deserialize, Serialize};

use super::effects::{Effect, RuleEffect, ablation, effects};
use super::plan::Plan;
use super::record::Sample;
use super::states::State;
use crate::Origin;
use crate::runner::Attempt;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-host-verify/1";

/// The document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verification {
    /// Version, start and machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// Whether the CPU is emulated. Such figures show that the path works, never how fast it is.
    pub emulated: bool,
    /// The profile: what the host is used for.
    pub profile: Profile,
    /// CPUs that are set aside.
    pub isolated: CpuList,
    /// CPUs that are set aside but offline: nothing is measured on them.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub isolated_offline: CpuList,
    /// CPUs for all other work.
    pub housekeeping: CpuList,
    /// Whether the plan was applied before the run, and stays applied after it.
    pub was_applied: bool,
    /// Values of the plan that had changed since it was applied.
    pub broken: Vec<Broken>,
    /// Rules that were switched.
    pub rules: Vec<String>,
    /// Rules that the host does not meet and that were not switched, or were switched only in part.
    pub left_out: Vec<LeftOut>,
    /// How often every state is set up afresh.
    pub blocks: u32,
    /// Length of one sample as planned, ns.
    pub sample_ns: u64,
    /// Whether every block was measured.
    pub complete: bool,
    /// Every sample, also the discarded ones.
    pub samples: Vec<Attempt<Sample>>,
    /// The applied state compared with the state as found.
    pub effects: Vec<Effect>,
    /// The states without one rule compared with the applied state, the most effective rule first.
    pub ablation: Vec<RuleEffect>,
}

/// A rule that was not switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The rule.
    pub rule: String,
    /// Why.
    pub reason: String,
}

impl LeftOut {
    /// A rule and the reason why it was not switched.
    pub fn new(rule: &str, reason: String) -> Self {
        LeftOut { rule: rule.to_owned(), reason }
    }
}

impl Verification {
    /// Results without samples.
    ///
    /// # Errors
    /// The causes of [`Origin::now`].
    pub fn new(survey: &Survey, plan: &Plan) -> Result<Self, Failure> {
        let origin = Origin::now(SCHEMA)?;
        Ok(Verification {
            emulated: kvm::is_emulated(),
            origin,
            profile: survey.wishes.profile,
            isolated: survey.isolated.clone(),
            isolated_offline: survey.isolated_offline.clone(),
            housekeeping: survey.housekeeping(),
            was_applied: false,
            broken: Vec::new(),
            rules: Vec::new(),
            left_out: Vec::new(),
            blocks: plan.blocks,
            sample_ns: plan.sample().as_nanos() as u64,
            complete: false,
            samples: Vec::new(),
            effects: Vec::new(),
            ablation: Vec::new(),
        })
    }

    /// The samples that count.
    pub fn counted(&self) -> Vec<&Sample> {
        self.samples.iter().filter_map(Attempt::counted).collect()
    }

    /// Derives the effects from the samples that count.
    pub fn conclude(&mut self) {
        let samples = self.counted();
        let effects = effects(&samples, &State::AsFound, &State::Applied);
        let ablation = ablation(&samples, &self.rules);
        (self.effects, self.ablation) = (effects, ablation);
    }
}

/// A verification of these samples, for tests.
#[cfg(any(test, feature = "example"))]
pub fn example(samples: Vec<Attempt<Sample>>) -> Verification {
    let mut verification = Verification {
        origin: Origin {
            schema: SCHEMA.into(),
            tautline: String::new(),
            started: String::new(),
            host: HostFacts::default(),
        },
        emulated: false,
        profile: Profile::RealtimeHost,
        isolated: "2-3".parse().unwrap(),
        isolated_offline: CpuList::default(),
        housekeeping: "0-1".parse().unwrap(),
        was_applied: false,
        broken: Vec::new(),
        rules: ["idle", "good"].map(str::to_owned).into(),
        left_out: Vec::new(),
        blocks: 6,
        sample_ns: 1_000_000_000,
        complete: true,
        samples,
        effects: Vec::new(),
        ablation: Vec::new(),
    };
    verification.conclude();
    verification
}
