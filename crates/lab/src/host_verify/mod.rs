//! `tautline host verify`: measures what a plan's changes give on this host, in turns with the host as it was
//! found.

mod effects;
mod plan;
mod record;
mod results;
mod sampler;
mod states;

use std::path::Path;

use host::rules::Takes;
use host::{Audit, HostTree, Outcome, Picked, PutBack, Survey, Toggle};
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;

use crate::Stopped;
pub use effects::{Effect, Figure, Finding, RuleEffect};
pub use plan::Plan;
#[cfg(any(test, feature = "example"))]
pub use record::example::samples;
pub use record::{Events, Sample};
#[cfg(any(test, feature = "example"))]
pub use results::example;
pub use results::{LeftOut, Verification};
use sampler::Sampler;
pub use states::State;
use states::order;

/// Applies the plan, unless it is applied already. Measures in turns with the host as it was found, and leaves the
/// host as it was found. If the user interrupts a run, the results hold what was measured until then and are
/// marked incomplete.
///
/// # Errors
/// The host's rules cannot be applied, switched or restored, nothing can be measured, or the user interrupted
/// before the first sample.
pub fn run(
    tree: &HostTree,
    survey: &Survey,
    plan: &Plan,
    progress: &Progress,
) -> Result<Verification, Stopped> {
    let mut verification = Verification::new(survey, plan)?;
    let journal = plan.journal.as_path();
    let broken = host::no_longer_holds(tree, &Audit::of(survey), journal)?;
    verification.was_applied = broken.is_some();
    verification.broken = broken.unwrap_or_default();
    if !verification.was_applied {
        apply(tree, survey, plan, &mut verification)?;
    }
    let measured = measure(tree, survey, plan, &mut verification, progress);
    progress.finish();
    // Whatever happened: the host is left as it was found.
    let left = if verification.was_applied { Ok(()) } else { put_back(tree, journal) };
    if let Err(error) = left.map_err(Stopped::from).and(measured)
        && (!matches!(error, Stopped::Interrupted(_)) || verification.samples.is_empty())
    {
        return Err(error);
    }
    verification.conclude();
    Ok(verification)
}

/// Applies what can be changed at run time and was accepted; the rest is named with its reason.
fn apply(
    tree: &HostTree,
    survey: &Survey,
    wanted: &Plan,
    verification: &mut Verification,
) -> Result<(), Stopped> {
    let plan = host::Plan::of(survey);
    let is_wanted = |rule: &str| wanted.rules.is_empty() || wanted.rules.iter().any(|name| name == rule);
    let mut rules = Vec::new();
    for rule in plan.rules.iter().filter(|rule| is_wanted(&rule.rule)) {
        let hazard = rule.hazard.as_ref().filter(|_| !wanted.accept.contains(&rule.rule));
        match (rule.at_run_time().next(), hazard) {
            (None, _) => {
                let takes = host::rules::find(&rule.rule).map(|rule| rule.takes);
                // A change that needs only a write, and is not written, must be made by the user.
                let how = takes.filter(|takes| *takes != Takes::RunTime).map_or("done by hand", Takes::words);
                verification.left_out.push(LeftOut::new(&rule.rule, format!("not switched: {how}")));
            }
            (Some(_), Some(hazard)) => {
                let reason = format!("needs --accept {}: {hazard}", rule.rule);
                verification.left_out.push(LeftOut::new(&rule.rule, reason));
            }
            (Some(_), None) => rules.push(rule.rule.clone()),
        }
    }
    let unknown = plan.unknown.iter().filter(|(rule, _)| is_wanted(rule));
    verification
        .left_out
        .extend(unknown.map(|(rule, reason)| LeftOut::new(rule, format!("unknown: {reason}"))));
    // Unknown names are reported before the first write.
    rules.extend(wanted.rules.iter().filter(|name| host::rules::find(name).is_none()).cloned());
    let picked = Picked { rules: Some(rules.clone()), accepted: wanted.accept.clone() };
    let applied = host::apply(tree, &plan, &picked, &wanted.journal, |outcome| {
        if let Outcome::Refused { rule, failure } = outcome {
            verification.left_out.push(LeftOut::new(rule, format!("in part: {failure}")));
        }
    });
    if applied.is_err() {
        let _ = put_back(tree, &wanted.journal);
    }
    applied?;
    let switched = Toggle::open(tree, &wanted.journal)?;
    let switched: Vec<&str> = switched.iter().flat_map(Toggle::rules).collect();
    for rule in &rules {
        let is_told = verification.left_out.iter().any(|left| left.rule == *rule);
        if !is_told && !switched.contains(&rule.as_str()) {
            let reason = "nothing was left to change once the rules before it were applied";
            verification.left_out.push(LeftOut::new(rule, reason.into()));
        }
    }
    Ok(())
}

/// Undoes everything that `apply` above has written.
fn put_back(tree: &HostTree, journal: &Path) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    host::undo(tree, journal, |entry, outcome| {
        if let PutBack::Failed(failure) = outcome {
            reasons.push(format!("{}: {failure}", entry.rule));
        }
    })?;
    if !reasons.is_empty() {
        return Err(Failure::new(
            format!("{} values were not restored", reasons.len()),
            reasons.join("; "),
            format!("the journal {} is kept for `tautline host undo`", journal.display()),
        ));
    }
    Ok(())
}

fn measure(
    tree: &HostTree,
    survey: &Survey,
    wanted: &Plan,
    verification: &mut Verification,
    progress: &Progress,
) -> Result<(), Stopped> {
    let mut toggle = Toggle::open(tree, &wanted.journal)?;
    if let Some(toggle) = &mut toggle
        && !wanted.rules.is_empty()
    {
        // The other rules of an applied plan stay applied.
        toggle.only(|rule| wanted.rules.iter().any(|name| name == rule));
    }
    let Some(toggle) = toggle.filter(|toggle| toggle.rules().next().is_some()) else {
        // If nothing of an applied plan holds any more, that is the result.
        if verification.was_applied {
            verification.complete = true;
            return Ok(());
        }
        let reasons = verification.left_out.iter().map(|left| format!("{}: {}", left.rule, left.reason));
        let reasons: Vec<String> = reasons.collect();
        let reasons = if reasons.is_empty() { "the host is as wanted".into() } else { reasons.join("; ") };
        return Err(Failure::new(
            "verifying a plan",
            format!("nothing in it can be switched at run time ({reasons})"),
            "see `tautline host plan`",
        )
        .into());
    };
    verification.rules = toggle.rules().map(str::to_owned).collect();
    let mut switching = Switching { tree, survey, wanted, verification, toggle, progress };
    let switched = switching.blocks();
    // An applied plan stays applied.
    let was_applied = switching.verification.was_applied;
    let restored = if was_applied { switching.toggle.switch(|_| true) } else { Ok(()) };
    switched?;
    if let Err(failed) = restored {
        let tried = format!("{}: {}", failed.rule, failed.failure.tried);
        return Err(Failure { tried, ..failed.failure }.into());
    }
    Ok(())
}

/// A verification that switches between the states of the host.
struct Switching<'a> {
    tree: &'a HostTree,
    survey: &'a Survey<'a>,
    wanted: &'a Plan,
    verification: &'a mut Verification,
    toggle: Toggle<'a>,
    progress: &'a Progress,
}

impl Switching<'_> {
    /// Measures every state once in each block.
    fn blocks(&mut self) -> Result<(), Stopped> {
        let mut sampler = Sampler::new(self.tree, &self.survey.isolated, self.wanted.sample())?;
        let mut states = states::all(&self.verification.rules, self.wanted.ablate);
        self.progress.count(u64::from(self.wanted.blocks) * states.len() as u64);
        for block in 0..self.wanted.blocks {
            for state in order(&states, block) {
                if !states.contains(&state) {
                    continue; // given up within this block
                }
                interrupt::check()?;
                self.progress.doing(state.to_string());
                self.switch(&state, &mut states);
                if states.contains(&state) {
                    let tried = sampler.sample(block, &state);
                    self.verification.samples.extend(tried.discarded);
                    self.verification.samples.push(tried.counted?);
                }
                self.progress.step();
            }
        }
        self.verification.complete = true;
        Ok(())
    }

    /// Puts the host into a state. A rule that cannot be switched any more is given up, and its state removed.
    fn switch(&mut self, state: &State, states: &mut Vec<State>) {
        while let Err(failed) = self.toggle.switch(|rule| state.has(rule)) {
            let reason = format!("could not be switched again: {}", failed.failure);
            self.progress.note(&format!("{}: {reason}", failed.rule));
            self.verification.left_out.push(LeftOut::new(&failed.rule, reason));
            self.toggle.give_up(&failed.rule);
            states.retain(|known| *known != State::Without(failed.rule.clone()));
            self.verification.rules.retain(|rule| *rule != failed.rule);
        }
    }
}
