//! Runs a search or a trial in each environment, in turns.

use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use measure::quota::Throttling;
use scenario::search::Search;

use super::chain::{self, Chain};
use super::job::Job;
use super::results::{Environment, Run, Trial};
use crate::Launcher;
use crate::runner::{Runner, Subject};

/// Users at which a search begins.
const FIRST: u32 = 8;
/// Users beyond which it does not go: the chain's frames carry no larger numbers.
const MOST: u32 = 50_000;

/// Measures in all environments. An environment that fails is recorded with the reason.
pub fn run(job: &Job, launcher: &Launcher, progress: &Progress, remark: &dyn Fn(&str)) -> Vec<Environment> {
    let mut environments: Vec<_> = job
        .environments
        .iter()
        .map(|place| Environment { name: place.name.clone(), is_emulated: false, outcome: Ok(Vec::new()) })
        .collect();
    let mut places = job.environments.clone();
    for (place, environment) in places.iter_mut().zip(&mut environments) {
        progress.doing(format!("{}: how it can be started", place.name));
        match chain::settled(&place.spec, job, launcher) {
            Ok((settled, is_emulated)) => (place.spec, environment.is_emulated) = (settled, is_emulated),
            Err(failure) => environment.outcome = Err(failure),
        }
    }
    let mut runner = Runner::new(job.cpus.len(), false);
    for round in 0..job.repeat {
        for (place, environment) in places.iter().zip(&mut environments) {
            let name = &environment.name;
            let Ok(runs) = &mut environment.outcome else { continue };
            if interrupt::is_set() {
                continue;
            }
            let started = Chain::start(place, job, launcher);
            let say = |users: u32| {
                progress.doing(format!("{name}, round {} of {}: {users} users", round + 1, job.repeat));
            };
            let measured = started.and_then(|chain| {
                let mut measuring = Measuring { job, chain, runner: &mut runner, run: Run::default() };
                measuring.search(&say).map(|()| measuring.run)
            });
            match measured {
                Ok(run) => runs.push(run),
                // Earlier results count; the reason is reported beside them.
                Err(failure) if !runs.is_empty() => remark(&format!("{name}: {failure}")),
                Err(failure) => environment.outcome = Err(failure),
            }
        }
    }
    environments
}

/// One search in progress.
struct Measuring<'a> {
    job: &'a Job,
    chain: Chain,
    runner: &'a mut Runner,
    run: Run,
}

impl Measuring<'_> {
    /// Searches for the number of users that fit, or runs the only trial.
    fn search(&mut self, say: &dyn Fn(u32)) -> Result<(), Failure> {
        let job = self.job;
        if let Some(users) = job.users {
            say(users);
            self.run.fits = if self.is_in_time(users)? { users } else { 0 };
            return Ok(());
        }
        let mut search = Search::new(FIRST, MOST / job.description.load.cells, job.within_percent);
        while let Some(users) = search.next().filter(|_| !interrupt::is_set()) {
            say(users);
            // Users fit if they are served in time in one of two trials: a pause of the host that is too short for
            // the noise rule may spoil one.
            let fits = self.is_in_time(users)? || self.is_in_time(users)?;
            search.judge(fits);
        }
        self.run.fits = search.result().0;
        Ok(())
    }

    /// Runs a trial. Returns whether its users were served in time.
    fn is_in_time(&mut self, users: u32) -> Result<bool, Failure> {
        let mut trial = ChainTrial { job: self.job, chain: &mut self.chain, users };
        let tried = self.runner.trial(&mut trial);
        self.run.trials.extend(tried.discarded);
        let counted = tried.counted?;
        let is_in_time = counted.measured.is_in_time;
        self.run.trials.push(counted);
        Ok(is_in_time)
    }
}

/// A chain with this many users in each cell.
struct ChainTrial<'a> {
    job: &'a Job,
    chain: &'a mut Chain,
    users: u32,
}

impl Subject for ChainTrial<'_> {
    type Measured = Trial;
    type Failed = Failure;

    fn cpus(&self) -> &[usize] {
        &self.job.cpus
    }

    fn throttling(&self) -> Throttling {
        self.chain.throttling()
    }

    fn measure(&mut self) -> Result<Trial, Failure> {
        let (job, users) = (self.job, self.users);
        let mut trial = Trial { users, is_in_time: false, members: self.chain.trial(job, users)? };
        trial.is_in_time = trial.missed() * 1000 <= trial.instants() * u64::from(job.missed_per_thousand);
        Ok(trial)
    }

    fn elapsed_ns(&self, measured: &Trial) -> u64 {
        (self.job.description.interval().as_nanos() as u64).saturating_mul(measured.instants())
    }
}
