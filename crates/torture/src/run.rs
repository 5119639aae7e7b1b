//! All cases of a plan, and what came of them.

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

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which families, in this order.
    pub families: Vec<Family>,
    /// Cases of each, unless `time` is over first.
    pub cases: u64,
    /// The number of the first case.
    pub first: u64,
    /// Time for each family.
    pub time: Option<Duration>,
    /// What cases follow from.
    pub seed: u64,
    /// After so many cases the back-end must serve a right front-end.
    pub check_every: u64,
    /// How long it may take for that.
    pub patience: Duration,
}

/// A back-end under test.
pub trait Target {
    /// Its socket.
    fn path(&self) -> &Path;

    /// Starts it again after it has gone; `false` if that is nobody's task, and the run ends.
    ///
    /// # Errors
    /// It does not start.
    fn restart(&mut self) -> Result<bool, Failure>;
}

/// A family's sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Which.
    pub family: Family,
    /// Cases made.
    pub cases: u64,
    /// Messages sent.
    pub messages: u64,
    /// States of rings, each kicked.
    pub ring_states: u64,
    /// Cases at whose end the back-end had closed the connection.
    pub closed: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// After these cases it no longer served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The first and the last case since it was last seen to serve.
    pub cases: (u64, u64),
    /// What it came to.
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

/// Runs a plan; tells `each` of every check, and stops where it says so.
///
/// # Errors
/// The back-end does not serve at the beginning, cannot be started again, or this system runs out of something.
pub fn run(
    target: &mut dyn Target,
    plan: &Plan,
    each: &mut dyn FnMut(&Counts) -> bool,
) -> Result<Vec<Counts>, Failure> {
    let path = target.path().to_owned();
    if health::of(&path, plan.patience) != Health::Serves {
        return Err(Failure::new(
            format!("asking the back-end at {} before anything is done to it", path.display()),
            "no right answer",
            "start it, and let it listen at this socket (server mode)",
        ));
    }
    let mut all = Vec::new();
    for &family in &plan.families {
        let (counts, goes_on) = run_family(target, &path, plan, family, each)?;
        all.push(counts);
        if !goes_on {
            break;
        }
    }
    Ok(all)
}

fn run_family(
    target: &mut dyn Target,
    path: &Path,
    plan: &Plan,
    family: Family,
    each: &mut dyn FnMut(&Counts) -> bool,
) -> Result<(Counts, bool), Failure> {
    let mut counts = Counts {
        family,
        cases: 0,
        messages: 0,
        ring_states: 0,
        closed: 0,
        elapsed_ns: 0,
        findings: Vec::new(),
    };
    let start = Instant::now();
    let mut checked = plan.first;
    for case in plan.first..plan.first + plan.cases {
        let over = plan.time.is_some_and(|time| start.elapsed() >= time);
        let broken = match over {
            true => false,
            false => match cases::make(family, path, &mut random_of(plan.seed, family, case)) {
                Ok(done) => {
                    counts.add(done);
                    false
                }
                Err(error) if is_ours(&error) => {
                    return Err(Failure::new(
                        format!("making case {case} of {}", family.name()),
                        error,
                        "raise the limit of open files (ulimit -n), or free memory",
                    ));
                }
                // What it does not answer in the course of a case it is asked again.
                Err(_) => {
                    counts.cases += 1;
                    true
                }
            },
        };
        let last = over || case + 1 == plan.first + plan.cases;
        if broken || last || (case + 1 - plan.first).is_multiple_of(plan.check_every) {
            let health = health::of(path, plan.patience);
            counts.elapsed_ns = start.elapsed().as_nanos() as u64;
            if health != Health::Serves {
                counts.findings.push(Finding { cases: (checked, case), health });
                if !target.restart()? || health::of(path, plan.patience) != Health::Serves {
                    return Ok((counts, false));
                }
            }
            checked = case + 1;
            if !each(&counts) {
                return Ok((counts, false));
            }
        }
        if over {
            break;
        }
    }
    Ok((counts, true))
}

/// Whether it is this process that cannot go on.
fn is_ours(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let ours = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC];
    ours.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Counts {
    fn add(&mut self, done: Done) {
        self.cases += 1;
        self.messages += done.messages;
        self.ring_states += done.ring_states;
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
