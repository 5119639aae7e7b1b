//! Runs all cases of a plan.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use measure::Failure;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use crate::cases::{self, Done};
use crate::family::Family;
use crate::health::{self, Health};

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The families of cases, in the order in which they run.
    pub families: Vec<Family>,
    /// How many cases are made.
    pub amount: Amount,
    /// The number of the first case.
    pub first: u64,
    /// The seed of the cases' random numbers.
    pub seed: u64,
    /// After this many cases the back-end must serve a correct front-end.
    pub check_every: u64,
    /// The longest time that the back-end may take to serve it.
    pub patience: Duration,
}

/// The number of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of cases for one family after the other.
    Cases {
        /// The number of cases of each family, unless `time` is over first.
        of_each: u64,
        /// The longest time for each family.
        time: Option<Duration>,
    },
    /// All families for the same time each, until the back-end has seen this many messages and states of rings.
    Seen(u64),
}

/// A back-end under test.
pub trait Target {
    /// The path of the back-end's socket.
    fn path(&self) -> &Path;

    /// Restarts the back-end after it has ended. Returns `false` if it must not be restarted, which ends the run.
    ///
    /// # Errors
    /// The back-end does not start.
    fn restart(&mut self) -> Result<bool, Failure>;
}

/// A family's sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The family.
    pub family: Family,
    /// Cases made.
    pub cases: u64,
    /// Hostile messages sent. Correct messages at the start of a session are not counted.
    pub messages: u64,
    /// Of these, messages that the back-end has answered, or at which it closed the connection.
    pub messages_read: u64,
    /// States of rings that were written, each followed by a kick.
    pub ring_states: u64,
    /// The number of these states in which the back-end has used buffers or stopped the ring.
    pub ring_states_seen: u64,
    /// Cases at the end of which the back-end had closed the connection.
    pub closed: u64,
    /// How long the cases took, ns.
    pub elapsed_ns: u64,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Cases after which the back-end no longer served, or in which it wrote where it may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The first and the last case since it last served, or the case in which it wrote.
    pub cases: (u64, u64),
    /// The state of the back-end after these cases.
    pub health: Health,
}

/// The random numbers of a case.
fn random_of(seed: u64, family: Family, case: u64) -> StdRng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&case.to_le_bytes());
    key[16] = family as u8;
    StdRng::from_seed(key)
}

/// Runs a plan. Calls `each` after every check, and stops when it returns `false`.
///
/// # Errors
/// The back-end does not serve at the beginning or cannot be restarted, or this system has no memory or descriptors
/// left.
pub fn run(
    target: &mut dyn Target,
    plan: &Plan,
    each: &mut dyn FnMut(&Counts) -> bool,
) -> Result<Vec<Counts>, Failure> {
    if health::of(target.path(), plan.patience) != Health::Serves {
        return Err(Failure::new(
            format!("asking the back-end at {} before anything is done to it", target.path().display()),
            "no right answer",
            "start it, and let it listen at this socket (server mode)",
        ));
    }
    let mut run = Run { target, plan, each };
    let mut all: Vec<Counts> = plan.families.iter().copied().map(Counts::new).collect();
    match plan.amount {
        Amount::Cases { of_each, time } => {
            for at in 0..all.len() {
                let start = Instant::now();
                let is_over = |counts: &Counts| {
                    counts.cases >= of_each || time.is_some_and(|time| start.elapsed() >= time)
                };
                while !is_over(&all[at]) {
                    let left = of_each - all[at].cases;
                    if !run
                        .some(&mut all[at], left, &mut || time.is_some_and(|time| start.elapsed() >= time))?
                    {
                        all.truncate(at + 1);
                        return Ok(all);
                    }
                }
            }
        }
        Amount::Seen(wanted) => {
            let seen = |all: &[Counts]| all.iter().map(Counts::seen).sum::<u64>();
            // Turns of as many cases would leave most of the time to the kind whose cases take longest.
            while seen(&all) < wanted
                && let Some(next) = all.iter_mut().min_by_key(|counts| counts.elapsed_ns)
                && run.some(next, u64::MAX, &mut || false)?
            {}
        }
    }
    Ok(all)
}

struct Run<'a> {
    target: &'a mut dyn Target,
    plan: &'a Plan,
    each: &'a mut dyn FnMut(&Counts) -> bool,
}

impl Run<'_> {
    /// Runs the next cases of a family, at most `count`, until the back-end must be checked; returns whether to
    /// continue.
    fn some(
        &mut self,
        counts: &mut Counts,
        at_most: u64,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Failure> {
        let start = Instant::now();
        let first = self.plan.first + counts.cases;
        let mut next = first;
        while next < first + at_most.min(self.plan.check_every) && !is_over() {
            let mut random = random_of(self.plan.seed, counts.family, next);
            let made = cases::make(counts.family, self.target.path(), &mut random);
            counts.cases += 1;
            next += 1;
            match made {
                Ok(done) => {
                    if done.spoiled {
                        let cases = (next - 1, next - 1);
                        counts.findings.push(Finding { cases, health: Health::WroteElsewhere });
                    }
                    counts.add(done);
                }
                Err(error) if is_ours(&error) => {
                    return Err(Failure::new(
                        format!("making case {} of {}", next - 1, counts.family.name()),
                        error,
                        "raise the limit of open files (ulimit -n), or free memory",
                    ));
                }
                // A request that the back-end does not answer during a case is sent again.
                Err(_) => break,
            }
        }
        let health = health::of(self.target.path(), self.plan.patience);
        counts.elapsed_ns += start.elapsed().as_nanos() as u64;
        if health != Health::Serves {
            counts.findings.push(Finding { cases: (first, next.max(first + 1) - 1), health });
            if !self.target.restart()? || health::of(self.target.path(), self.plan.patience) != Health::Serves
            {
                return Ok(false);
            }
        }
        Ok((self.each)(counts))
    }
}

/// Whether it is this process that cannot go on.
fn is_ours(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let ours = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC];
    ours.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Counts {
    fn new(family: Family) -> Self {
        Counts {
            family,
            cases: 0,
            messages: 0,
            messages_read: 0,
            ring_states: 0,
            ring_states_seen: 0,
            closed: 0,
            elapsed_ns: 0,
            findings: Vec::new(),
        }
    }

    /// The number of messages and states of rings that the back-end has certainly seen.
    pub fn seen(&self) -> u64 {
        self.messages_read + self.ring_states_seen
    }

    fn add(&mut self, done: Done) {
        self.messages += done.messages;
        self.messages_read += done.messages_read;
        self.ring_states += done.ring_states;
        self.ring_states_seen += done.ring_states_seen;
        self.closed += u64::from(done.closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn a_case_follows_from_seed_family_and_number() {
        let first = |seed, family, case| random_of(seed, family, case).next_u64();
        let one = first(1, Family::Order, 2);
        assert_eq!(one, first(1, Family::Order, 2));
        for other in [first(2, Family::Order, 2), first(1, Family::Bytes, 2), first(1, Family::Order, 3)] {
            assert_ne!(one, other);
        }
    }
}
