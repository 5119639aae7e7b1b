//! The summary at the end of a verification: the effect of the changes, and the rules that were shown to cause it.

use lab::host_verify::{Effect, Figure, Finding, RuleEffect, Verification};
use report::EMULATED_MARK;

use super::table::{ABLATION, shown};

/// The lines of the summary; empty if nothing was measured.
pub fn lines(verification: &Verification) -> Vec<String> {
    let mark = if verification.emulated { EMULATED_MARK } else { "" };
    let effects = &verification.effects;
    if effects.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("\nIn short{mark}")];
    if effects.iter().all(|effect| effect.finding == Finding::TooFewBlocks) {
        lines.push("  too few blocks to tell anything; 6 are needed (--blocks 6)".into());
        return lines;
    }
    for (finding, word) in [(Finding::Better, "better"), (Finding::Worse, "worse")] {
        let found: Vec<String> =
            effects.iter().filter(|effect| effect.finding == finding).map(changed).collect();
        if !found.is_empty() {
            lines.push(format!("  applied, {word}: {}", found.join("; ")));
        }
    }
    let same = effects.iter().filter(|effect| effect.finding == Finding::NoDifferenceShown).count();
    if same > 0 {
        lines.push(format!("  no difference shown in {same} of {} figures", effects.len()));
    }
    let rules = &verification.ablation;
    let named = |holds: &dyn Fn(&RuleEffect) -> bool| -> String {
        rules.iter().filter(|rule| holds(rule)).map(|rule| rule.rule.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (helping, harming) =
        (named(&|rule| has(rule, Finding::Worse)), named(&|rule| has(rule, Finding::Better)));
    if !helping.is_empty() {
        lines.push(format!("  rules that are shown to help: {helping}"));
    }
    if !harming.is_empty() {
        lines.push(format!("  rules without which a figure is better: {harming}"));
    }
    if !rules.is_empty() && helping.is_empty() && harming.is_empty() {
        lines.push(format!("  no effect of any one of {} rules was shown", rules.len()));
    }
    if rules.is_empty() {
        lines.push("  which rule gave it: --ablate measures each alone".into());
    }
    lines
}

/// Whether one of the shown figures of a rule had this finding in the measurement without the rule.
fn has(rule: &RuleEffect, finding: Finding) -> bool {
    ABLATION.into_iter().filter_map(|figure: Figure| rule.of(figure)).any(|effect| effect.finding == finding)
}

fn changed(effect: &Effect) -> String {
    let (change, interval) = shown(effect);
    let each = if effect.figure.is_latency() { "" } else { " /s" };
    format!("{} {change}{each} {interval}", effect.figure.title())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::host_verify::{example, samples};

    #[test]
    fn what_the_changes_gave_and_which_rules_help() {
        let verification = example(samples(6));
        let text = lines(&verification).join("\n");
        for words in ["In short", "applied, better: ", "wake-up, 99 % ×0.50 [0.50, 0.50]", "help: good"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("idle"), "a rule without an effect: {text}");
        let mut whole = example(samples(6));
        whole.ablation.clear();
        assert!(lines(&whole).join("\n").contains("--ablate"));
    }

    #[test]
    fn few_blocks_tell_nothing_and_no_sample_has_no_end() {
        let text = lines(&example(samples(2))).join("\n");
        assert!(text.contains("too few blocks to tell anything") && !text.contains("better"), "{text}");
        assert!(lines(&example(Vec::new())).is_empty());
    }
}
