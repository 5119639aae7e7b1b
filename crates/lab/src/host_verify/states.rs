//! The states of the host that are compared, and the order in which they are measured.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One state of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum State {
    /// The host as it was found.
    AsFound,
    /// All rules applied.
    Applied,
    /// All rules applied except this one.
    Without(String),
}

impl State {
    /// Whether a rule is applied in this state.
    pub fn has(&self, rule: &str) -> bool {
        match self {
            State::AsFound => false,
            State::Applied => true,
            State::Without(other) => other != rule,
        }
    }
}

/// The states to measure. With a single rule, the state without that rule equals the state as found.
pub(super) fn all(rules: &[String], ablate: bool) -> Vec<State> {
    let mut states = vec![State::AsFound, State::Applied];
    if ablate {
        states.extend(rules.iter().cloned().map(State::Without));
    }
    states
}

/// The order of the states in a block: forward and backward by turns, so that a drift affects all states alike.
pub(super) fn order(states: &[State], block: u32) -> Vec<State> {
    let mut states = states.to_vec();
    if block % 2 == 1 {
        states.reverse();
    }
    states
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::AsFound => f.write_str("as found"),
            State::Applied => f.write_str("applied"),
            State::Without(rule) => write!(f, "without {rule}"),
        }
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("without ")) {
            ("as found", _) => Ok(State::AsFound),
            ("applied", _) => Ok(State::Applied),
            (_, Some(rule)) => Ok(State::Without(rule.to_owned())),
            _ => Err(format!("{text:?} is no state of a host")),
        }
    }
}

impl TryFrom<String> for State {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<State> for String {
    fn from(state: State) -> Self {
        state.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_comes_once_a_block_there_and_back() {
        let rules = ["one", "two"].map(str::to_owned);
        let states = all(&rules, true);
        assert_eq!(states.len(), 4);
        let [first, second] = [0, 1].map(|block| order(&states, block));
        assert_eq!(first.iter().rev().collect::<Vec<_>>(), second.iter().collect::<Vec<_>>());
        assert_eq!(all(&rules, false), [State::AsFound, State::Applied]);
        assert!(State::Without("one".into()).has("two") && !State::Without("one".into()).has("one"));
        for state in states {
            assert_eq!(state.to_string().parse::<State>(), Ok(state));
        }
    }
}
