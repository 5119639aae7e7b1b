//! Formats an audit and a plan for the terminal.

use std::fmt::Write;

use textwrap::{Options, WordSplitter};

use super::audit::{Audit, Finding};
use super::cpu_list::CpuList;
use super::plan::Plan;
use super::rules::{Change, State, Takes};

/// Below this width lines would hold a word or two.
const NARROWEST: usize = 40;

/// The groups, what needs the eye last.
const GROUPS: [(State, &str, char); 5] = [
    (State::NotApplicable, "Not applicable", '-'),
    (State::Information, "Information", 'i'),
    (State::Pass, "As wanted", '✓'),
    (State::Unknown, "Unknown: not passed", '?'),
    (State::Fail, "Not as wanted", '✗'),
];

/// The CPUs that are set aside, and which of them are offline.
pub fn isolated_in_words(isolated: &CpuList, offline: &CpuList) -> String {
    let isolated = if isolated.is_empty() { "none".to_owned() } else { isolated.to_string() };
    match offline.is_empty() {
        true => isolated,
        false => format!("{isolated} (and {offline}, not online)"),
    }
}

impl Audit {
    /// The audit as text of at most `width` columns.
    pub fn render(&self, width: usize) -> String {
        let (width, mut text, isolated) =
            (width.max(NARROWEST), String::new(), isolated_in_words(&self.isolated, &self.isolated_offline));
        let _ = writeln!(
            text,
            "{}: CPUs {}, set aside {isolated}, for the host {}\n",
            self.profile.name(),
            self.online,
            self.housekeeping
        );
        for (state, heading, symbol) in GROUPS {
            let group: Vec<&Finding> =
                self.findings.iter().filter(|finding| finding.state == state).collect();
            if group.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{heading}");
            for finding in group {
                self.one(&mut text, finding, symbol, width);
            }
            text.push('\n');
        }
        self.answer(&mut text, width);
        text
    }

    /// The last lines: how many rules are met, the names of the others by what a change requires, and the next command.
    fn answer(&self, text: &mut String, width: usize) {
        let count = |state| self.count(state);
        let _ = writeln!(
            text,
            "{} as wanted, {} not as wanted, {} unknown, {} not applicable",
            count(State::Pass),
            count(State::Fail),
            count(State::Unknown),
            count(State::NotApplicable)
        );
        let failing = |finding: &&Finding| finding.state == State::Fail;
        for takes in [Takes::RunTime, Takes::ModuleReload, Takes::Reboot, Takes::Firmware, Takes::Nothing] {
            let of = self.findings.iter().filter(failing).filter(|finding| finding.takes == takes);
            let names: Vec<&str> = of.map(|finding| finding.rule.as_str()).collect();
            if !names.is_empty() {
                paragraph(text, &format!("  {}: ", takes.words()), &names.join(", "), width);
            }
        }
        if count(State::Fail) > 0 {
            let _ = writeln!(text, "'tautline host plan' lists what to write for each; it changes nothing.");
        }
    }

    fn one(&self, text: &mut String, finding: &Finding, symbol: char, width: usize) {
        let brief = matches!(finding.state, State::Pass | State::NotApplicable | State::Information);
        if brief {
            let line = format!("{} ({}): {}", finding.title, finding.rule, finding.found);
            paragraph(text, &format!("  {symbol} "), &line, width);
            return;
        }
        let _ = writeln!(text, "  {symbol} {} ({})", finding.title, finding.rule);
        paragraph(text, "    found:  ", &finding.found, width);
        paragraph(text, "    wanted: ", &finding.wanted, width);
        paragraph(text, "    why:    ", &format!("{} [{}]", finding.why, finding.source), width);
        paragraph(text, "    risk:   ", &finding.risk, width);
        paragraph(text, "    change: ", finding.takes.words(), width);
    }
}

impl Plan {
    /// The plan as text of at most `width` columns. Lines that the user may copy are not wrapped.
    pub fn render(&self, width: usize) -> String {
        let (width, mut text, isolated) =
            (width.max(NARROWEST), String::new(), isolated_in_words(&self.isolated, &self.isolated_offline));
        let _ = writeln!(
            text,
            "{}: CPUs set aside {isolated}, for the host {}. Nothing was changed.",
            self.profile.name(),
            self.housekeeping
        );
        self.at_run_time(&mut text, width);
        self.by_boot(&mut text, width);
        let options = self.module_options();
        if !options.is_empty() {
            let _ = writeln!(
                text,
                "\nModule options, in /etc/modprobe.d/tautline.conf (modules loaded again, VMs down)"
            );
            for (module, option) in options {
                let _ = writeln!(text, "  options {module} {option}");
            }
        }
        let by_hand =
            self.rules.iter().flat_map(|rule| rule.changes.iter().map(move |change| (rule, change)));
        let by_hand: Vec<_> = by_hand
            .filter_map(|(rule, change)| match change {
                Change::ByHand { action } => Some((rule, action)),
                _ => None,
            })
            .collect();
        if !by_hand.is_empty() {
            let _ = writeln!(text, "\nBy hand");
            for (rule, action) in by_hand {
                paragraph(&mut text, "  ", &format!("{}: {action}", rule.rule), width);
            }
        }
        if !self.unknown.is_empty() {
            let _ = writeln!(text, "\nNot planned, because it could not be read");
            for (rule, reason) in &self.unknown {
                paragraph(&mut text, "  ", &format!("{rule}: {reason}"), width);
            }
        }
        if self.rules.is_empty() {
            let _ = writeln!(text, "\nNothing to change.");
        }
        text
    }

    fn at_run_time(&self, text: &mut String, width: usize) {
        let rules: Vec<_> = self.rules.iter().filter(|rule| rule.at_run_time().next().is_some()).collect();
        if rules.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\nAt run time, by `tautline host apply` in this order; `tautline host undo` puts it back"
        );
        for rule in rules {
            let _ = writeln!(text, "  {} ({}): {}", rule.title, rule.rule, rule.found);
            paragraph(text, "    risk: ", &rule.risk, width);
            if let Some(hazard) = &rule.hazard {
                paragraph(text, "    needs ", &format!("--accept {}: {hazard}", rule.rule), width);
            }
            for change in rule.at_run_time() {
                let Change::Set { knob, value } = change else { continue };
                let _ = writeln!(text, "    {knob} = {value}");
            }
        }
    }

    fn by_boot(&self, text: &mut String, width: usize) {
        let Some(boot) = &self.boot else { return };
        let _ = writeln!(text, "\nOn the kernel's command line (a reboot)");
        let _ = writeln!(text, "  {}", boot.parameters.join(" "));
        if let Some(warning) = &boot.warning {
            paragraph(text, "  warning: ", warning, width);
        }
        let any = boot.loaders.iter().any(|loader| loader.found);
        for loader in boot.loaders.iter().filter(|loader| loader.found || !any) {
            for edit in &loader.edits {
                let line = edit.number.map_or_else(String::new, |number| format!(", line {number}"));
                let _ = writeln!(text, "  {}: in {}{line}", loader.name, edit.file);
                for line in edit.line.lines() {
                    let _ = writeln!(text, "    {line}");
                }
            }
            if let Some(reason) = &loader.not_understood {
                let words =
                    format!("{reason}; put the parameters in by hand, in place of those with the same name");
                paragraph(text, &format!("  {}: ", loader.name), &words, width);
            }
            let _ = writeln!(text, "    then: {}", loader.then);
        }
    }
}

/// A wrapped paragraph whose further lines stand under the first one's text.
fn paragraph(text: &mut String, label: &str, words: &str, width: usize) {
    let further = " ".repeat(label.chars().count());
    let options = Options::new(width)
        .initial_indent(label)
        .subsequent_indent(&further)
        .word_splitter(WordSplitter::NoHyphenation); // names and options are to be copied
    for line in textwrap::wrap(words, options) {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
