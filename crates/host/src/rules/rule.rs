//! A rule, and its result for a host.

use serde::{Deserialize, Serialize};

use crate::knob::Knob;
use crate::survey::{Profile, Survey};
use crate::tree::Unread;

/// A rule.
pub struct Rule {
    /// Its name.
    pub id: &'static str,
    /// The subject of the rule.
    pub title: &'static str,
    /// The reason for the rule, in one line.
    pub why: &'static str,
    /// The source of the rule.
    pub source: &'static str,
    /// The things that a change may break.
    pub risk: &'static str,
    /// The action that a change requires.
    pub takes: Takes,
    /// The profiles that contain the rule.
    pub profiles: &'static [Profile],
    /// The function that checks the rule.
    pub(super) look: fn(&Survey) -> Verdict,
}

impl Rule {
    /// The result of this rule for a host.
    pub fn look(&self, survey: &Survey) -> Verdict {
        (self.look)(survey)
    }
}

/// The action that a change of the rule's setting requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// A write while the host runs.
    RunTime,
    /// Loading a module again; virtual machines must be stopped meanwhile.
    ModuleReload,
    /// A reboot.
    Reboot,
    /// A change in the firmware's set-up.
    Firmware,
    /// Nothing can be changed: the rule only informs.
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

/// Whether a host meets a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As wanted.
    Pass,
    /// The host does not have the wanted value.
    Fail,
    /// The value could not be read. This state never counts as passed.
    Unknown,
    /// The host does not have the thing that the rule checks.
    NotApplicable,
    /// The rule wants no value; the value is only shown.
    Information,
}

/// The result of a rule for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the host meets the rule.
    pub state: State,
    /// The value that was found, or the reason why it could not be read.
    pub found: String,
    /// The wanted value.
    pub wanted: String,
    /// The changes with which the host would meet the rule.
    pub changes: Vec<Change>,
    /// The reason why the rule's run-time changes require the user's consent: the connections or programs that they
    /// can cut or stall.
    pub hazard: Option<String>,
}

/// One change.
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
    /// An action that only a person can take.
    ByHand {
        /// The action in words, or as a command.
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

    /// Adds the changes; if the host meets the rule, adds nothing.
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

/// Checks a file that should contain one value. If the file is absent and `kernel_has` exists, `absent` says why that
/// is acceptable.
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

/// Distinguishes a feature that the kernel lacks from a file that could not be read.
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

/// The result of a rule about isolated CPUs on a host without isolated CPUs.
pub(super) fn nothing_isolated() -> Verdict {
    Verdict::unknown("no CPU is set aside", "name them with --isolate")
}

/// The first few of many items, on one line.
pub(super) fn some_of(all: &[String]) -> String {
    const MOST: usize = 4;
    match all.len() {
        0..=MOST => all.join(", "),
        more => format!("{} and {} more", all[..MOST].join(", "), more - MOST),
    }
}

/// Profiles that set CPUs aside.
pub(super) const REAL_TIME: &[Profile] = &[Profile::RealtimeHost, Profile::RealtimeGuest];
/// The profile for a host of real-time guests.
pub(super) const HOST: &[Profile] = &[Profile::RealtimeHost];
/// The profiles for hosts with short response times.
pub(super) const QUICK: &[Profile] = &[Profile::Latency, Profile::RealtimeHost];
/// All profiles that require short response times.
pub(super) const QUICK_ALL: &[Profile] = &[Profile::Latency, Profile::RealtimeHost, Profile::RealtimeGuest];
/// Every host.
pub(super) const HOSTS: &[Profile] = &[Profile::Latency, Profile::RealtimeHost, Profile::Throughput];
/// Every profile.
pub(super) const ALL: &[Profile] = &Profile::ALL;
