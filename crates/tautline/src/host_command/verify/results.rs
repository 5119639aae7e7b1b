//! What `host verify` writes: every sample, and what follows from them.

use host::tuning::{Broken, CpuList, Profile, Survey};
use measure::host_facts::HostFacts;
use serde::{Deserialize, Serialize};

use super::effects::{Effect, RuleEffect, ablation, effects};
use super::record::Sample;
use super::states::State;
use crate::cli::host::Verify;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-host-verify/1";

/// The document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verification {
    pub schema: String,
    pub tautline: String,
    pub started: String,
    pub host: HostFacts,
    /// Figures of an emulated CPU show that the path works, never how fast it is.
    pub emulated: bool,
    pub profile: Profile,
    pub isolated: CpuList,
    /// CPUs that are set aside and not online: nothing is measured on them.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub isolated_offline: CpuList,
    pub housekeeping: CpuList,
    /// Whether the plan was applied before, and stays so.
    pub was_applied: bool,
    /// What no longer held of it.
    pub broken: Vec<Broken>,
    /// Rules that were switched.
    pub rules: Vec<String>,
    /// Rules that the host does not meet and that were not switched, or only in part.
    pub left_out: Vec<LeftOut>,
    pub blocks: u32,
    /// Length of one sample, as asked for.
    pub sample_ns: u64,
    /// Whether every block was measured.
    pub complete: bool,
    pub samples: Vec<Sample>,
    /// Applied against as found.
    pub effects: Vec<Effect>,
    /// Without one rule against applied, the most effective first.
    pub ablation: Vec<RuleEffect>,
}

/// A rule that was not switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub rule: String,
    pub reason: String,
}

impl LeftOut {
    pub fn new(rule: &str, reason: String) -> Self {
        LeftOut { rule: rule.to_owned(), reason }
    }
}

impl Verification {
    /// Nothing was measured yet.
    pub fn new(survey: &Survey, arguments: &Verify) -> anyhow::Result<Self> {
        let host = HostFacts::gather();
        Ok(Verification {
            schema: SCHEMA.into(),
            tautline: env!("CARGO_PKG_VERSION").into(),
            started: time::OffsetDateTime::now_utc()
                .format(&time::format_description::well_known::Rfc3339)?,
            emulated: host.cpu_model.contains("TCG"),
            host,
            profile: survey.wishes.profile,
            isolated: survey.isolated.clone(),
            isolated_offline: survey.isolated_offline.clone(),
            housekeeping: survey.housekeeping(),
            was_applied: false,
            broken: Vec::new(),
            rules: Vec::new(),
            left_out: Vec::new(),
            blocks: arguments.blocks,
            sample_ns: (arguments.time / arguments.blocks).as_nanos() as u64,
            complete: false,
            samples: Vec::new(),
            effects: Vec::new(),
            ablation: Vec::new(),
        })
    }

    /// Derives the effects from the samples.
    pub fn conclude(&mut self) {
        self.effects = effects(&self.samples, &State::AsFound, &State::Applied);
        self.ablation = ablation(&self.samples, &self.rules);
    }
}

#[cfg(test)]
pub fn example(samples: Vec<Sample>) -> Verification {
    let mut verification = Verification {
        schema: SCHEMA.into(),
        tautline: String::new(),
        started: String::new(),
        host: HostFacts::default(),
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
