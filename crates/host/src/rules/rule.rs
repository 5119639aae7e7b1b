//! What a rule is, and what it says of a host.

use serde::{Deserialize, Serialize};

use crate::knob::Knob;
use crate::survey::{Profile, Survey};
use crate::tree::Unread;

/// A rule.
pub struct Rule {
    /// Its name.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// Why, in one line.
    pub why: &'static str,
    /// The source of the rule.
    pub source: &'static str,
    /// What a change may break.
    pub risk: &'static str,
    /// What a change takes.
    pub takes: Takes,
    /// The profiles that want it.
    pub profiles: &'static [Profile],
    /// How it is found out.
    pub(super) look: fn(&Survey) -> Verdict,
}

impl Rule {
    /// What this rule says of a host.
    pub fn look(&self, survey: &Survey) -> Verdict {
        (self.look)(survey)
    }
}

/// What it takes to change what a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// A write while the host runs.
    RunTime,
    /// A module that is loaded again; virtual machines are down meanwhile.
    ModuleReload,
    /// A reboot.
    Reboot,
    /// The firmware's set-up.
    Firmware,
    /// Nothing can be changed: it is for information.
    Nothing,
}

impl Takes {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Takes::RunTime => "at run time",
            Takes::ModuleReload => "module reload, VMs down",
            Takes::Reboot => "needs a reboot",
            Takes::Firmware => "firmware set-up, needs a reboot",
            Takes::Nothing => "information",
        }
    }
}

/// How a host stands to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As wanted.
    Pass,
    /// Not as wanted.
    Fail,
    /// It could not be read. Never counts as passed.
    Unknown,
    /// The host has nothing that the rule is about.
    NotApplicable,
    /// Nothing is wanted; told for what it is worth.
    Information,
}

/// What a rule says of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How the host stands.
    pub state: State,
    /// What was found, or why it could not be.
    pub found: String,
    /// What is wanted.
    pub wanted: String,
    /// What would make it so.
    pub changes: Vec<Change>,
    /// Why its run-time changes need the user's word: what they can cut or stall.
    pub hazard: Option<String>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Change {
    /// A value to set while the host runs.
    Set {
        /// The knob to set.
        #[serde(flatten)]
        knob: Knob,
        /// The value to set.
        value: String,
    },
    /// A parameter of the kernel's command line.
    Boot {
        /// `key` or `key=value`.
        parameter: String,
    },
    /// An option of a module, in modprobe.d.
    Module {
        /// Which module.
        module: String,
        /// `key=value`.
        option: String,
    },
    /// What only a person can do.
    ByHand {
        /// In words, or as a command.
        action: String,
    },
}

impl Change {
    pub(super) fn file(path: impl Into<String>, value: impl Into<String>) -> Self {
        Change::Set { knob: Knob::File { path: path.into() }, value: value.into() }
    }

    pub(super) fn boot(parameter: impl Into<String>) -> Self {
        Change::Boot { parameter: parameter.into() }
    }

    pub(super) fn module(module: &str, option: impl Into<String>) -> Self {
        Change::Module { module: module.into(), option: option.into() }
    }

    pub(super) fn by_hand(action: impl Into<String>) -> Self {
        Change::ByHand { action: action.into() }
    }
}

impl Verdict {
    pub(super) fn new(state: State, found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Verdict { state, found: found.into(), wanted: wanted.into(), changes: Vec::new(), hazard: None }
    }

    pub(super) fn pass(found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(State::Pass, found, wanted)
    }

    pub(super) fn fail(found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(State::Fail, found, wanted)
    }

    pub(super) fn judge(holds: bool, found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(if holds { State::Pass } else { State::Fail }, found, wanted)
    }

    pub(super) fn unknown(reason: impl ToString, wanted: impl Into<String>) -> Self {
        Self::new(State::Unknown, reason.to_string(), wanted)
    }

    pub(super) fn not_applicable(reason: impl Into<String>) -> Self {
        Self::new(State::NotApplicable, reason, "")
    }

    pub(super) fn information(found: impl Into<String>) -> Self {
        Self::new(State::Information, found, "")
    }

    /// With what to do; nothing where all is well.
    pub(super) fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        if self.state == State::Fail {
            self.changes.extend(changes);
        }
        self
    }

    pub(super) fn hazard(mut self, hazard: impl Into<String>) -> Self {
        if !self.changes.is_empty() {
            self.hazard = Some(hazard.into());
        }
        self
    }
}

/// A file that should hold one value. Where it is absent and `kernel_has` is there, `absent` says why that is fine.
pub(super) fn one_value(
    survey: &Survey,
    path: &str,
    wanted: &str,
    kernel_has: &str,
    absent: &str,
) -> Verdict {
    match survey.tree.read(path) {
        Ok(found) => Verdict::judge(found == wanted, &found, wanted).with([Change::file(path, wanted)]),
        Err(unread) => absence(survey, &unread, wanted, kernel_has, absent),
    }
}

/// Tells what a kernel does not have from what could not be read.
pub(super) fn absence(
    survey: &Survey,
    unread: &Unread,
    wanted: &str,
    kernel_has: &str,
    absent: &str,
) -> Verdict {
    if unread.is_absent() && survey.tree.has(kernel_has) {
        Verdict::not_applicable(absent)
    } else {
        Verdict::unknown(unread, wanted)
    }
}

/// What a rule about isolated CPUs says where there are none.
pub(super) fn nothing_isolated() -> Verdict {
    Verdict::unknown("no CPU is set aside", "name them with --isolate")
}

/// Some of many, for one line.
pub(super) fn some_of(all: &[String]) -> String {
    const MOST: usize = 4;
    match all.len() {
        0..=MOST => all.join(", "),
        more => format!("{} and {} more", all[..MOST].join(", "), more - MOST),
    }
}

/// Profiles that set CPUs aside.
pub(super) const REAL_TIME: &[Profile] = &[Profile::RealtimeHost, Profile::RealtimeGuest];
/// The host of real-time guests.
pub(super) const HOST: &[Profile] = &[Profile::RealtimeHost];
/// Hosts that answer quickly.
pub(super) const QUICK: &[Profile] = &[Profile::Latency, Profile::RealtimeHost];
/// Everything that must answer quickly.
pub(super) const QUICK_ALL: &[Profile] = &[Profile::Latency, Profile::RealtimeHost, Profile::RealtimeGuest];
/// Every host.
pub(super) const HOSTS: &[Profile] = &[Profile::Latency, Profile::RealtimeHost, Profile::Throughput];
/// Every profile.
pub(super) const ALL: &[Profile] = &Profile::ALL;
