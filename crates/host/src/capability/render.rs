//! Capabilities for the terminal.

use std::fmt::Write;

use textwrap::{Options, WordSplitter};

use super::{Capability, State};

/// Below this width lines would hold a word or two.
const NARROWEST: usize = 40;
const INDENT: &str = "    ";

/// The capabilities as text of at most `width` columns: what works first, what is missing last, where the
/// eye falls, with what to do about it; within each group in their own order.
pub fn render(capabilities: &[Capability], width: usize, color: bool) -> String {
    let width = width.max(NARROWEST);
    let mut text = String::new();
    for state in [State::Proven, State::Partial, State::Missing] {
        let group: Vec<&Capability> =
            capabilities.iter().filter(|capability| capability.state == state).collect();
        if group.is_empty() {
            continue;
        }
        let style = Style::of(state, color);
        let _ = writeln!(text, "{}{}{}", style.on, style.heading, style.off);
        for capability in group {
            one(&mut text, capability, &style, width);
        }
        text.push('\n');
    }
    summary(&mut text, capabilities);
    text
}

fn one(text: &mut String, capability: &Capability, style: &Style, width: usize) {
    let Style { on, off, bold, symbol, about, .. } = style;
    let _ = writeln!(text, "  {on}{symbol}{off} {bold}{}{off}", capability.title);
    paragraph(text, "", &capability.detail, width);
    if !capability.opens.is_empty() {
        paragraph(text, about, &capability.opens, width);
    }
    if !capability.remedy.is_empty() {
        paragraph(text, "to do:  ", &capability.remedy, width);
    }
}

/// A wrapped paragraph whose further lines stand under the first one's text.
fn paragraph(text: &mut String, label: &str, words: &str, width: usize) {
    let first = format!("{INDENT}{label}");
    let further = " ".repeat(first.len());
    let options = Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(&further)
        .word_splitter(WordSplitter::NoHyphenation); // names and options are to be copied
    for line in textwrap::wrap(words, options) {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn summary(text: &mut String, capabilities: &[Capability]) {
    let count = |state| capabilities.iter().filter(|capability| capability.state == state).count();
    let (proven, partial, missing) = (count(State::Proven), count(State::Partial), count(State::Missing));
    let _ = writeln!(text, "{proven} proven, {partial} in part, {missing} missing");
}

struct Style {
    heading: &'static str,
    symbol: char,
    /// What the sentence about the use is introduced with, all of one width.
    about: &'static str,
    on: &'static str,
    bold: &'static str,
    off: &'static str,
}

impl Style {
    fn of(state: State, color: bool) -> Self {
        let (heading, symbol, about, on) = match state {
            State::Proven => ("Proven", '✓', "opens:  ", "\x1b[32m"),
            State::Partial => ("In part", '~', "limits: ", "\x1b[33m"),
            State::Missing => ("Missing", '✗', "closes: ", "\x1b[31m"),
        };
        let (on, bold, off) = if color { (on, "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        Style { heading, symbol, about, on, bold, off }
    }
}
