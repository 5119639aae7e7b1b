//! The machine of the run, and how to repeat it.

use maud::{Markup, html};

use crate::units;
use crate::view::View;

pub(super) fn section(view: &View) -> Markup {
    let plan = &view.results.plan;
    html! {
        div {
            h3 { "To repeat it" }
            pre { (command(&view.results.command)) }
            dl {
                dt { "Tautline" } dd { (units::text(&view.results.tautline)) }
                dt { "starts × rounds" } dd { (plan.blocks) " × " (plan.rounds) }
                dt { "pinned to CPUs" } dd { (format!("{:?}", plan.cpus)) }
                dt { "took" } dd { (units::watched((view.results.elapsed_s.max(0.0) * 1e9) as u64)) }
            }
            h3 { "The machine" }
            dl {
                @for (name, value) in crate::diff::facts(&view.results.host) {
                    dt { (units::text(&name)) } dd { @if value.is_empty() { "unknown or none" } @else { (units::text(&value)) } }
                }
            }
        }
    }
}

/// The command as it can be pasted into a shell.
fn command(words: &[String]) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@%+".contains(c);
    let quoted = |word: &String| {
        let word = units::text(word);
        if !word.is_empty() && word.chars().all(safe) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
