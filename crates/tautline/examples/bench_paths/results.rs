//! The counts of each path, taken twice; how the two differ, and whether they have changed.

use std::collections::BTreeMap;
use std::fmt::Write;

use kvm::trace::Reasons;
use serde::{Deserialize, Serialize};

use crate::window::Counters;

pub const SCHEMA: &str = "tautline-bench-paths/1";

/// The counts of one boot of the machine.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub kernel: String,
    pub qemu: String,
    /// By path and direction.
    pub counts: BTreeMap<(String, String), Counts>,
}

/// For each packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// The virtual CPU's.
    pub exits: f64,
    /// The exits after which QEMU ran.
    pub to_user_space: f64,
    /// Exits and entries, system calls and their returns, switches to another thread.
    pub transitions: f64,
    /// Of the machine's CPU, in whatever mode: guest, kernel, processes.
    pub instructions: f64,
    /// Exits by reason.
    pub by_reason: BTreeMap<String, f64>,
    /// Switches by the thread that runs then.
    pub switches: BTreeMap<String, f64>,
    /// System calls by thread.
    pub system_calls: BTreeMap<String, f64>,
}

impl Counts {
    /// `each` makes a packet's share of a count.
    pub fn new(events: &Counters, instructions: f64, reasons: &Reasons, each: impl Fn(i64) -> f64) -> Self {
        let sum = |counts: &BTreeMap<String, i64>| counts.values().sum::<i64>();
        let shares = |counts: &BTreeMap<String, i64>, name: &dyn Fn(&str) -> String| {
            let shares = counts.iter().map(|(key, count)| (name(key), each(*count)));
            shares.filter(|(_, share)| share.abs() > 0.004).collect()
        };
        let (exits, switches, calls) = (sum(&events.exits), sum(&events.switches), sum(&events.system_calls));
        let same = |key: &str| key.to_owned();
        let reason = |key: &str| key.parse().map_or_else(|_| key.to_owned(), |number| reasons.name(number));
        Self {
            exits: each(exits),
            to_user_space: each(events.to_user_space),
            transitions: each(2 * exits + 2 * calls + switches),
            instructions: (instructions * each(1)).round(),
            by_reason: shares(&events.exits, &reason),
            switches: shares(&events.switches, &same),
            system_calls: shares(&events.system_calls, &same),
        }
    }
}

/// A file of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub started: String,
    pub tautline: String,
    /// The kernel of the nested machine.
    pub kernel: String,
    /// Within it.
    pub qemu: String,
    /// For each path and direction.
    pub packets: u32,
    pub paths: Vec<Row>,
}

/// A path and direction, counted as often as the machine was booted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub path: String,
    pub direction: String,
    pub runs: Vec<Counts>,
}

/// The figures that are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Exits,
    Transitions,
    Instructions,
}

impl Figure {
    pub const ALL: [Self; 3] = [Self::Exits, Self::Transitions, Self::Instructions];

    pub fn name(self) -> &'static str {
        match self {
            Self::Exits => "exits",
            Self::Transitions => "transitions",
            Self::Instructions => "instructions",
        }
    }

    pub fn of(self, counts: &Counts) -> f64 {
        match self {
            Self::Exits => counts.exits,
            Self::Transitions => counts.transitions,
            Self::Instructions => counts.instructions,
        }
    }
}

impl Row {
    /// Least and most of the runs.
    pub fn range(&self, figure: Figure) -> (f64, f64) {
        let values = self.runs.iter().map(|counts| figure.of(counts));
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// How far the runs are apart, of their middle.
    pub fn spread(&self, figure: Figure) -> f64 {
        let (low, high) = self.range(figure);
        if high - low == 0.0 { 0.0 } else { 2.0 * (high - low) / (high + low) }
    }
}

/// Side by side.
pub fn table(results: &Results) -> String {
    let mut text = format!(
        "{} packets each, one every 20 ms, into and out of an idle guest; {}, {}.\n\
         For each packet, without what sending alone costs:\n\n{:<12} {:<6}",
        results.packets, results.kernel, results.qemu, "path", ""
    );
    for figure in Figure::ALL {
        let _ = write!(text, "  {:>21} {:>7}", figure.name(), "spread");
    }
    text.push('\n');
    for row in &results.paths {
        let _ = write!(text, "{:<12} {:<6}", row.path, row.direction);
        for figure in Figure::ALL {
            let digits = if figure == Figure::Instructions { 0 } else { 2 };
            let runs: Vec<String> =
                row.runs.iter().map(|counts| format!("{:>10.digits$}", figure.of(counts))).collect();
            let _ = write!(text, "  {:>21} {:>5.2} %", runs.join(" "), 100.0 * row.spread(figure));
        }
        text.push('\n');
    }
    text
}
