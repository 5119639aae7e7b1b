//! `tautline host verify`: what a plan's changes give here, measured in turns with the host as it was found.

mod effects;
mod limits;
mod record;
mod results;
mod sampler;
mod states;
mod table;

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use host::tuning::rules::Takes;
use host::tuning::{self, Audit, HostTree, Outcome, Picked, Plan, PutBack, Survey, Toggle};
use linux::interrupt::{self, Interrupted};

use crate::cli::host::Verify;
use crate::exit::{Done, Usage};
use crate::gate;
use crate::output::{self, Sink};
use results::{LeftOut, Verification};
use sampler::Sampler;
use states::{State, order};

/// Runs the command.
pub fn run(arguments: &Verify) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    if arguments.subject.root != Path::new("/") {
        return Err(Usage("--root: only the host itself can be measured".into()).into());
    }
    let gate = gate::load(&arguments.limits)?;
    output::catch_interrupts()?;
    let tree = HostTree::live();
    let wishes = arguments.subject.wishes(Duration::ZERO);
    let survey = Survey::of(&tree, &wishes)?;
    if survey.isolated.is_empty() {
        let offline = &survey.isolated_offline;
        let found = match offline.is_empty() {
            true => "no CPU is set aside".to_owned(),
            false => format!("no CPU that is online is set aside; CPUs {offline} are, and are not online"),
        };
        return Err(Usage(format!("{found}: name CPUs with --isolate")).into());
    }
    let mut verification = Verification::new(&survey, arguments)?;
    let journal = arguments.journal.as_path();
    let broken = tuning::no_longer_holds(&tree, &Audit::of(&survey), journal)?;
    verification.was_applied = broken.is_some();
    verification.broken = broken.unwrap_or_default();
    if !verification.was_applied {
        apply(&tree, &survey, arguments, &mut verification)?;
    }
    let measured = measure(&tree, &survey, arguments, &mut verification);
    // Whatever happened: the host is left as it was found.
    let left = if verification.was_applied { Ok(()) } else { put_back(&tree, journal) };
    if let Err(error) = left.and(measured)
        && (!error.is::<Interrupted>() || verification.samples.is_empty())
    {
        return Err(error);
    }
    verification.conclude();
    let outcomes =
        gate.map(|gate| gate.evaluate_figures(&limits::figures(&verification))).unwrap_or_default();
    sink.put(|width, _| table::render(&verification, width), || Ok(serde_json::to_string(&verification)?))?;
    output::print_gate(&sink, &outcomes)?;
    if !verification.complete {
        return Err(anyhow::Error::new(Interrupted).context("what was measured until then is shown above"));
    }
    // A plan that somebody has undone in part is a limit that does not hold.
    Ok(if verification.broken.is_empty() { gate::done(&outcomes) } else { Done::ThresholdExceeded })
}

/// Applies what can be changed at run time and was accepted; the rest is named with its reason.
fn apply(
    tree: &HostTree,
    survey: &Survey,
    arguments: &Verify,
    verification: &mut Verification,
) -> anyhow::Result<()> {
    let plan = Plan::of(survey);
    let wanted = |rule: &str| arguments.rules.is_empty() || arguments.rules.iter().any(|name| name == rule);
    let mut rules = Vec::new();
    for rule in plan.rules.iter().filter(|rule| wanted(&rule.rule)) {
        let hazard = rule.hazard.as_ref().filter(|_| !arguments.accept.contains(&rule.rule));
        match (rule.at_run_time().next(), hazard) {
            (None, _) => {
                let takes = tuning::rules::find(&rule.rule).map(|rule| rule.takes);
                // What takes no more than a write and is not written is a person's to do.
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
    let unknown = plan.unknown.iter().filter(|(rule, _)| wanted(rule));
    verification
        .left_out
        .extend(unknown.map(|(rule, reason)| LeftOut::new(rule, format!("unknown: {reason}"))));
    // Names that are none are told by it, before the first write.
    rules.extend(arguments.rules.iter().filter(|name| tuning::rules::find(name).is_none()).cloned());
    let picked = Picked { rules: Some(rules.clone()), accepted: arguments.accept.clone() };
    let applied = tuning::apply(tree, &plan, &picked, &arguments.journal, |outcome| {
        if let Outcome::Refused { rule, failure } = outcome {
            verification.left_out.push(LeftOut::new(rule, format!("in part: {failure}")));
        }
    });
    if applied.is_err() {
        let _ = put_back(tree, &arguments.journal);
    }
    applied.map_err(anyhow::Error::from)?;
    let switched = Toggle::open(tree, &arguments.journal)?;
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

/// Everything that `apply` above has written.
fn put_back(tree: &HostTree, journal: &Path) -> anyhow::Result<()> {
    let mut reasons = Vec::new();
    tuning::undo(tree, journal, |entry, outcome| {
        if let PutBack::Failed(failure) = outcome {
            reasons.push(format!("{}: {failure}", entry.rule));
        }
    })?;
    if !reasons.is_empty() {
        bail!(
            "{} values were not put back: {}; the journal {} is kept for `tautline host undo`",
            reasons.len(),
            reasons.join("; "),
            journal.display()
        );
    }
    Ok(())
}

fn measure(
    tree: &HostTree,
    survey: &Survey,
    arguments: &Verify,
    verification: &mut Verification,
) -> anyhow::Result<()> {
    let mut toggle = Toggle::open(tree, &arguments.journal)?;
    if let Some(toggle) = &mut toggle
        && !arguments.rules.is_empty()
    {
        // Of an applied plan the others stay applied.
        toggle.only(|rule| arguments.rules.iter().any(|name| name == rule));
    }
    let Some(mut toggle) = toggle.filter(|toggle| toggle.rules().next().is_some()) else {
        // Of an applied plan of which nothing holds any more, that is the result.
        if verification.was_applied {
            verification.complete = true;
            return Ok(());
        }
        let reasons = verification.left_out.iter().map(|left| format!("{}: {}", left.rule, left.reason));
        let reasons: Vec<String> = reasons.collect();
        bail!(
            "verifying a plan: nothing in it can be switched at run time ({}); see `tautline host plan`",
            if reasons.is_empty() { "the host is as wanted".into() } else { reasons.join("; ") }
        );
    };
    verification.rules = toggle.rules().map(str::to_owned).collect();
    let switched = blocks(tree, survey, arguments, verification, &mut toggle);
    // An applied plan stays applied.
    let restored = if verification.was_applied { toggle.switch(|_| true) } else { Ok(()) };
    switched?;
    if let Err(failed) = restored {
        bail!("{}: {}", failed.rule, failed.failure);
    }
    Ok(())
}

fn blocks(
    tree: &HostTree,
    survey: &Survey,
    arguments: &Verify,
    verification: &mut Verification,
    toggle: &mut Toggle,
) -> anyhow::Result<()> {
    let progress = output::progress();
    let mut sampler = Sampler::new(tree, &survey.isolated, arguments.time / arguments.blocks)?;
    let mut states = states::all(&verification.rules, arguments.ablate);
    progress.count(u64::from(arguments.blocks) * states.len() as u64);
    for block in 0..arguments.blocks {
        for state in order(&states, block) {
            if !states.contains(&state) {
                continue; // given up within this block
            }
            interrupt::check()?;
            progress.doing(state.to_string());
            while let Err(failed) = toggle.switch(|rule| state.has(rule)) {
                let reason = format!("could not be switched again: {}", failed.failure);
                progress.note(&format!("{}: {reason}", failed.rule));
                verification.left_out.push(LeftOut::new(&failed.rule, reason));
                toggle.give_up(&failed.rule);
                states.retain(|known| *known != State::Without(failed.rule.clone()));
                verification.rules.retain(|rule| *rule != failed.rule);
            }
            if states.contains(&state) {
                verification.samples.push(sampler.sample(block, &state)?);
            }
            progress.step();
        }
    }
    progress.finish();
    verification.complete = true;
    Ok(())
}
