//! Capabilities for the terminal.

use std::fmt::Write;

use textwrap::{Options, WordSplitter};

use super::finding::{Capability, State};

/// Below this width lines would hold a word or two.
const NARROWEST: usize = 40;
const INDENT: &str = "    ";

/// The capabilities as text of at most `width` columns: the proven ones first and the missing ones last, where the
/// user sees them first, each with its remedy; within each group in their own order.
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
    if !capability.enables.is_empty() {
        paragraph(text, about, &capability.enables, width);
    }
    if !capability.remedy.is_empty() {
        paragraph(text, "fix:         ", &capability.remedy, width);
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
    /// The words that introduce the sentence about the use; all of them have the same width.
    about: &'static str,
    on: &'static str,
    bold: &'static str,
    off: &'static str,
}

impl Style {
    fn of(state: State, color: bool) -> Self {
        let (heading, symbol, about, on) = match state {
            State::Proven => ("Proven", '✓', "enables:     ", "\x1b[32m"),
            State::Partial => ("In part", '~', "limited:     ", "\x1b[33m"),
            State::Missing => ("Missing", '✗', "unavailable: ", "\x1b[31m"),
        };
        let (on, bold, off) = if color { (on, "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        Style { heading, symbol, about, on, bold, off }
    }
}

#[cfg(test)]
mod tests {
    use measure::Failure;
    use textwrap::core::display_width;

    use super::*;

    fn some() -> Vec<Capability> {
        let enables =
            "a long sentence about what hangs on it, so long that it fills more than one line of text";
        vec![
            Capability::missing(
                "c",
                "Third",
                Failure::new("opening /dev/c", "ENOENT", "load the module (`modprobe c`)"),
                enables,
            ),
            Capability::proven("a", "First", "99 pages obtained; µs; ".repeat(9), enables),
            Capability::partial("b", "Second", "/sys/fs/cgroup/".repeat(12), enables, "echo 1 > /proc/b"),
            Capability::proven("d", "Fourth", "short", ""),
        ]
    }

    #[test]
    fn lines_keep_within_the_width() {
        for width in [60, 120] {
            let text = render(&some(), width, false);
            for line in text.lines() {
                assert!(display_width(line) <= width, "{width}: {line}");
                assert_eq!(line, line.trim_end(), "nothing trails");
            }
        }
        let lines = |width| render(&some(), width, false).lines().count();
        assert!(lines(120) < lines(60), "a wider terminal takes fewer lines");
    }

    #[test]
    fn what_works_comes_first_and_what_is_missing_last_with_its_remedy() {
        let text = render(&some(), 80, false);
        let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} in {text}"));
        let places = [
            place("Proven"),
            place("✓ First"),
            place("✓ Fourth"),
            place("In part"),
            place("~ Second"),
            place("fix:         echo 1 > /proc/b"),
            place("Missing"),
            place("✗ Third"),
            place("opening /dev/c: ENOENT"),
            place("unavailable: a long sentence"),
            place("fix:         load the module"),
            place("2 proven, 1 in part, 1 missing"),
        ];
        assert!(places.is_sorted(), "{places:?} in {text}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let colored = render(&some(), 80, true);
        assert!(colored.contains("\x1b["));
        let mut plain = colored;
        for code in ["\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[1m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, render(&some(), 80, false));
    }
}
