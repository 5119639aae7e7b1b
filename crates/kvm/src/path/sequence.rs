//! A sequence diagram as text, with a line for each place and an arrow for each step.

use std::fmt::Write;

use super::step::Place;
use super::summary::Summary;

/// A lane is so wide.
const LANE: usize = 18;

/// The lanes of a diagram, in the order of their first step: name and mode of each.
pub fn lanes(summary: &Summary) -> Vec<(String, &'static str)> {
    let mut lanes = Vec::new();
    for place in summary.steps.iter().flat_map(|step| [&step.from, &step.to]) {
        let lane = (place.who.clone(), place.mode.name());
        if !lanes.contains(&lane) {
            lanes.push(lane);
        }
    }
    lanes
}

/// The lane of a place.
pub fn lane(lanes: &[(String, &str)], place: &Place) -> usize {
    lanes.iter().position(|(who, mode)| *who == place.who && *mode == place.mode.name()).unwrap_or(0)
}

/// The diagram.
pub fn text(summary: &Summary) -> String {
    let lanes = lanes(summary);
    let mut text = String::new();
    for part in [0, 1] {
        let mut line = String::from("    ");
        for (who, mode) in &lanes {
            let word: String = if part == 0 { who } else { *mode }.chars().take(LANE - 2).collect();
            let _ = write!(line, "{word:<LANE$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for (number, step) in summary.steps.iter().enumerate() {
        let (from, to) = (lane(&lanes, &step.from), lane(&lanes, &step.to));
        let mut line: Vec<char> = vec![' '; lanes.len() * LANE];
        for place in 0..lanes.len() {
            line[place * LANE] = '│';
        }
        let (low, high) = (from.min(to) * LANE, from.max(to) * LANE);
        for cell in &mut line[low + 1..high.max(low + 1)] {
            *cell = '─';
        }
        if to > from {
            line[high - 1] = '►';
        } else if to < from {
            line[low + 1] = '◄';
        } else {
            line[low] = '●';
        }
        let label = if step.what.is_empty() { step.arrow.name() } else { &step.what };
        if high > low + 4 {
            for (cell, letter) in line[low + 2..high - 2].iter_mut().zip(label.chars()) {
                *cell = letter;
            }
        }
        let line: String = line.into_iter().collect();
        let _ = writeln!(text, "{:>3} {}", number + 1, line.trim_end());
    }
    text
}
