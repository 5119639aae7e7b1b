//! Runs a search or a trial in each environment, in turns.

use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use scenario::search::Search;

use super::chain::{self, Chain};
use super::job::Job;
use super::results::{Environment, Run, Trial};
use crate::Launcher;

/// Users at which a search begins.
const FIRST: u32 = 8;
/// Users beyond which it does not go: the chain's frames carry no larger numbers.
const MOST: u32 = 50_000;

/// Measures in all environments. An environment that fails is recorded with the reason.
pub fn run(job: &Job, launcher: &Launcher, progress: &Progress, remark: &dyn Fn(&str)) -> Vec<Environment> {
    let (agent, janitor) = (&launcher.agent, &launcher.janitor);
    let mut environments: Vec<_> = job
        .environments
        .iter()
        .map(|(name, _)| Environment { name: name.clone(), is_emulated: false, outcome: Ok(Vec::new()) })
        .collect();
    let mut specs = Vec::new();
    for ((name, spec), environment) in job.environments.iter().zip(&mut environments) {
        progress.doing(format!("{name}: how it can be started"));
        match chain::settled(spec, job, (agent, janitor)) {
            Ok((settled, is_emulated)) => {
                specs.push(settled);
                environment.is_emulated = is_emulated;
            }
            Err(failure) => {
                specs.push(spec.clone());
                environment.outcome = Err(failure);
            }
        }
    }
    for round in 0..job.repeat {
        for (spec, environment) in specs.iter().zip(&mut environments) {
            let name = &environment.name;
            let Ok(runs) = &mut environment.outcome else { continue };
            if interrupt::is_set() {
                continue;
            }
            let started = Chain::start(name, spec, job, (agent, janitor));
            let say = |users: u32| {
                progress.doing(format!("{name}, round {} of {}: {users} users", round + 1, job.repeat));
            };
            match started.and_then(|mut chain| one_run(job, &mut chain, &say)) {
                Ok(run) => runs.push(run),
                // What came before counts; the reason is said beside it.
                Err(failure) if !runs.is_empty() => remark(&format!("{name}: {failure}")),
                Err(failure) => environment.outcome = Err(failure),
            }
        }
    }
    environments
}

fn one_run(job: &Job, chain: &mut Chain, say: &dyn Fn(u32)) -> Result<Run, Failure> {
    let mut run = Run { fits: 0, trials: Vec::new() };
    if let Some(users) = job.users {
        say(users);
        let trial = trial(job, chain, users)?;
        run.fits = if trial.is_in_time { users } else { 0 };
        run.trials.push(trial);
        return Ok(run);
    }
    let mut search = Search::new(FIRST, MOST / job.description.load.cells, job.within_percent);
    while let Some(users) = search.next().filter(|_| !interrupt::is_set()) {
        say(users);
        let mut tried = trial(job, chain, users)?;
        // A tick may be missed because the host was away; what fits does so in one of two trials.
        if !tried.is_in_time {
            run.trials.push(tried);
            tried = trial(job, chain, users)?;
        }
        search.judge(tried.is_in_time);
        run.trials.push(tried);
    }
    run.fits = search.result().0;
    Ok(run)
}

fn trial(job: &Job, chain: &mut Chain, users: u32) -> Result<Trial, Failure> {
    let mut trial = Trial { users, is_in_time: false, members: chain.trial(job, users)? };
    trial.is_in_time = trial.missed() * 1000 <= trial.instants() * u64::from(job.missed_per_thousand);
    Ok(trial)
}
