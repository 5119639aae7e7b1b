//! The description of a scenario: one TOML file that users edit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The built-in scenarios, by name.
pub const BUILT_IN: [(&str, &str); 2] = [
    ("base-station", include_str!("../scenarios/base-station.toml")),
    ("control-loop", include_str!("../scenarios/control-loop.toml")),
];

/// Members of a chain at most.
const MOST_MEMBERS: usize = 8;
/// Frames of one tick at most: a counter of the frames' header.
const MOST_FRAMES: u32 = 50_000;

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The title, as it is shown.
    pub title: String,
    /// The time from one tick to the next, µs.
    pub interval_us: u32,
    /// The deadline, µs: a tick is missed if its last frame reaches the chain's end later than this after the tick
    /// was due.
    pub deadline_us: u32,
    /// The load of a tick.
    pub load: Load,
    /// The members of the chain, in order. The first member makes the ticks.
    #[serde(rename = "member")]
    pub members: Vec<Member>,
}

/// The work of each tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The number of a base station's cells; 1 for other scenarios.
    #[serde(default = "one")]
    pub cells: u32,
    /// The number of users of a cell, or of a control loop's axes. A search varies it.
    pub users: u32,
    /// Bytes of a user's packet in each tick.
    pub bytes: u32,
    /// Threads that share a member's work for users.
    #[serde(default = "one")]
    pub workers: u32,
}

impl Load {
    /// The number of users of all cells.
    pub fn all_users(&self) -> u32 {
        self.cells * self.users
    }
}

fn one() -> u32 {
    1
}

/// One member of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The member's name, which is also shown in the table.
    pub name: String,
    /// The member's work.
    pub work: Work,
    /// Whether the member runs in the environment that is measured. The other members run on the host.
    #[serde(default)]
    pub moves: bool,
    /// The budget from the frame's arrival (for the first member: from the tick) until it is passed on, µs.
    pub budget_us: Option<u32>,
}

/// How a member processes a tick's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Makes the ticks, and a transport block for each user.
    RadioUnit,
    /// Descrambles the blocks and checks their CRC.
    #[serde(rename = "layer-1")]
    Layer1,
    /// A scheduler pass, and for each user header compression, ciphering and integrity, and segmentation.
    #[serde(rename = "layer-2")]
    Layer2,
    /// Reassembles packets, deciphers and checks them.
    Core,
    /// Makes the ticks, and a reading of each axis.
    Sensor,
    /// Estimates each axis' state, and computes a force.
    Controller,
    /// Moves the axes by the given forces.
    Actuator,
}

impl Work {
    fn is_first(self) -> bool {
        matches!(self, Work::RadioUnit | Work::Sensor)
    }

    fn is_last(self) -> bool {
        matches!(self, Work::Core | Work::Actuator)
    }
}

/// Why a text is not a valid scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; docs/scenarios.md says what a scenario consists of")]
pub struct DescriptionError(String);

impl Description {
    /// Reads a scenario and checks it.
    ///
    /// # Errors
    /// The text is not TOML, a field is missing or unknown, or the causes of [`Description::check`].
    pub fn parse(text: &str) -> Result<Self, DescriptionError> {
        let description: Self = toml::from_str(text).map_err(|error| DescriptionError(error.to_string()))?;
        description.check()?;
        Ok(description)
    }

    /// Checks the description. Must be called again after a change of its load.
    ///
    /// # Errors
    /// The chain has too few or too many members, two with the same name, or one whose work or move is impossible at
    /// its place. Or a number is outside its limits.
    pub fn check(&self) -> Result<(), DescriptionError> {
        self.why_not().map_err(DescriptionError)
    }

    /// The time from one tick to the next.
    pub fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_us.into())
    }

    fn why_not(&self) -> Result<(), String> {
        let count = self.members.len();
        if !(2..=MOST_MEMBERS).contains(&count) {
            return Err(format!("{count} members; a chain has 2 to {MOST_MEMBERS}"));
        }
        for (at, member) in self.members.iter().enumerate() {
            if member.work.is_first() != (at == 0) || member.work.is_last() != (at == count - 1) {
                return Err(format!(
                    "member {:?} cannot be number {} of {count} of a chain",
                    member.name,
                    at + 1
                ));
            }
            if self.members[..at].iter().any(|other| other.name == member.name) {
                return Err(format!("two members named {:?}", member.name));
            }
            if member.moves && (at == 0 || at == count - 1) {
                return Err(format!(
                    "member {:?} cannot move: both ends share the host's clock",
                    member.name
                ));
            }
        }
        let between = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} = {value}; {least} to {most}"))
            }
        };
        between("interval_us", self.interval_us, 100, 1_000_000)?;
        between("deadline_us", self.deadline_us, 1, 10_000_000)?;
        between("cells", self.load.cells, 1, 64)?;
        between("users", self.load.users, 1, MOST_FRAMES)?;
        between("bytes", self.load.bytes, 36, 1400)?;
        between("workers", self.load.workers, 1, 256)?;
        between("cells × users", self.load.cells.saturating_mul(self.load.users), 1, MOST_FRAMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_ones_are_right() {
        for (name, text) in BUILT_IN {
            let description = Description::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(description.members.iter().any(|member| member.moves), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let good = BUILT_IN[0].1;
        for (from, to, said) in [
            ("interval_us = 1000", "interval_us = 1", "interval_us = 1; 100 to 1000000"),
            ("interval_us = 1000", "interval = 1000", "unknown field `interval`"),
            ("work = \"layer-1\"", "work = \"core\"", "cannot be number 2 of 4"),
            ("work = \"layer-1\"", "work = \"dance\"", "unknown variant `dance`"),
            ("name = \"layer 2\"", "name = \"layer 1\"", "two members named"),
            ("users = 8", "users = 60000", "users = 60000"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Description::parse(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
