//! Reads and prints whole flows, as `ovs-ofctl dump-flows --no-stats` prints them.
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::{ParseError, action, value};
use crate::{Action, Flow, Match};

/// The words that `dump-flows` prints with a flow and that are no part of it.
const STATISTICS: [&str; 5] = ["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

fn number<T: TryFrom<u128>>(word: &str, text: &str) -> Result<T, ParseError> {
    let number = value::number(text).and_then(|number| T::try_from(number).ok());
    let accepted = || format!("a number of at most {} bits", 8 * size_of::<T>());
    number.ok_or_else(|| ParseError::new(word, "no number", accepted()))
}

impl Flow {
    /// A word that is not of the match.
    fn add_word(&mut self, word: &str) -> Result<bool, ParseError> {
        let (name, text) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "table" => self.table = number(word, text)?,
            "priority" => self.priority = number(word, text)?,
            "cookie" => self.cookie = number(word, text)?,
            "idle_timeout" => self.timeouts.idle = number(word, text)?,
            "hard_timeout" => self.timeouts.hard = number(word, text)?,
            "importance" => self.importance = number(word, text)?,
            "send_flow_rem" => self.flags.send_removed = true,
            "check_overlap" => self.flags.check_overlap = true,
            "reset_counts" => self.flags.reset_counts = true,
            "no_packet_counts" => self.flags.no_packet_counts = true,
            "no_byte_counts" => self.flags.no_byte_counts = true,
            _ => return Ok(STATISTICS.contains(&name)),
        }
        Ok(true)
    }

    /// Reads a flow as `ovs-ofctl` writes it: `table=0,priority=100,ip,nw_dst=10.0.0.0/24 actions=output:2`. The
    /// statistics of `dump-flows` are ignored.
    ///
    /// # Errors
    /// A word is unknown, a value is invalid for its field, the protocol of a field is missing, or the actions are
    /// missing or do not fit the match.
    pub fn parse(text: &str) -> Result<Flow, ParseError> {
        let (head, actions) =
            text.split_once("actions=").or_else(|| text.split_once("action=")).ok_or_else(|| {
                ParseError::new(
                    text,
                    "actions are missing",
                    "actions=drop, or other actions at the flow's end",
                )
            })?;
        let mut flow = Flow::default();
        let mut wanted = Vec::new();
        for word in head.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
            if !flow.add_word(word)? {
                wanted.push(word);
            }
        }
        flow.wanted = Match::parse(&wanted.join(","))?;
        flow.actions = Action::parse_list(actions)?;
        flow.check().map_err(|error| ParseError::new(error.action.to_string(), error.why, error.accepted))?;
        Ok(flow)
    }
}

impl FromStr for Flow {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Flow::parse(text)
    }
}

impl Display for Flow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.cookie != 0 {
            write!(f, "cookie={:#x}, ", self.cookie)?;
        }
        if self.table != 0 {
            write!(f, "table={}, ", self.table)?;
        }
        for (name, number) in [("idle_timeout", self.timeouts.idle), ("hard_timeout", self.timeouts.hard)] {
            if number != 0 {
                write!(f, "{name}={number}, ")?;
            }
        }
        let flags = &self.flags;
        for (is, name) in [
            (flags.send_removed, "send_flow_rem"),
            (flags.check_overlap, "check_overlap"),
            (flags.reset_counts, "reset_counts"),
            (flags.no_packet_counts, "no_packet_counts"),
            (flags.no_byte_counts, "no_byte_counts"),
        ] {
            if is {
                write!(f, "{name} ")?;
            }
        }
        if self.importance != 0 {
            write!(f, "importance={}, ", self.importance)?;
        }
        let wanted = self.wanted.to_string();
        if self.priority != Self::DEFAULT_PRIORITY {
            write!(f, "priority={}{}", self.priority, if wanted.is_empty() { " " } else { "," })?;
        }
        if !wanted.is_empty() {
            write!(f, "{wanted} ")?;
        }
        write!(f, "actions={}", action::List(&self.actions))
    }
}

impl Action {
    /// Reads actions as `ovs-ofctl` writes them: `set_field:5->reg0,resubmit(,3)`; `drop` for none.
    ///
    /// # Errors
    /// An action is unknown, or its argument is invalid.
    pub fn parse_list(text: &str) -> Result<Vec<Action>, ParseError> {
        action::list(text, 0)
    }

    /// Prints actions as `ovs-ofctl` prints them for OpenFlow 1.5.
    pub fn print_list(actions: &[Action]) -> String {
        action::List(actions).to_string()
    }
}
