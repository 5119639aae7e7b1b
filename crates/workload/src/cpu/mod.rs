//! Computing: kernels that check their own results, on one CPU and on all, and operation latencies.
//!
//! The kernels do work that is known to matter in embedded and server code (lists, matrices, state machines, CRC);
//! the code and the names are this project's own.

mod crc;
mod kernel;
pub(crate) mod latency;
mod list;
mod matrix;
mod mix;
mod state_machine;

use std::sync::Barrier;
use std::thread;

use measure::Failure;

use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::pin::pin_to;
use crate::trial::Trial;
use kernel::Kernel;

pub(crate) use latency::Operation;

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Computation {
    List,
    Matrix,
    StateMachine,
    Crc,
}

impl Computation {
    pub(crate) const ALL: [Computation; 4] =
        [Computation::List, Computation::Matrix, Computation::StateMachine, Computation::Crc];

    /// The middle word of the metric's name and the title.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Computation::List => ("list", "list processing"),
            Computation::Matrix => ("matrix", "matrix arithmetic"),
            Computation::StateMachine => ("state_machine", "state machine"),
            Computation::Crc => ("crc", "CRC-32"),
        }
    }

    /// Runs the kernel on the trial's first CPU.
    pub(crate) fn on_one(self, trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
        match self {
            Computation::List => one(list::List::default(), trial, pace),
            Computation::Matrix => one(matrix::Matrix::default(), trial, pace),
            Computation::StateMachine => one(state_machine::StateMachine::default(), trial, pace),
            Computation::Crc => one(crc::Crc::default(), trial, pace),
        }
    }

    /// Runs the kernel on every CPU of the trial at once.
    pub(crate) fn on_all(self, trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
        match self {
            Computation::List => all::<list::List>(trial, pace),
            Computation::Matrix => all::<matrix::Matrix>(trial, pace),
            Computation::StateMachine => all::<state_machine::StateMachine>(trial, pace),
            Computation::Crc => all::<crc::Crc>(trial, pace),
        }
    }
}

fn one<K: Kernel>(kernel: K, trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    batch::measure(trial.budget, Scale::per_second(1.0), pace, one_batch(kernel))
}

fn check(found: u32, expected: u32) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(
        "checking a kernel's result",
        format!("it computed {found:#010x} where {expected:#010x} is right"),
        "do not trust this CPU or its emulation: run a memory and CPU test",
    ))
}

fn all<K: Kernel>(trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    batch::calibrate(trial.budget, pace, &mut one_batch(K::default()))?;
    let barrier = Barrier::new(trial.cpus.len());
    let parts: Vec<Result<Measured, Failure>> = thread::scope(|scope| {
        let spawn = |&cpu: &usize| {
            let (barrier, mut pace) = (&barrier, pace.clone());
            scope.spawn(move || {
                let pinned = pin_to(cpu);
                let mut batch = one_batch(K::default());
                barrier.wait();
                pinned?;
                batch::measure(trial.budget, Scale::per_second(1.0), &mut pace, &mut batch)
            })
        };
        let threads: Vec<_> = trial.cpus.iter().map(spawn).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::panicked("running a kernel on one of the CPUs")))
        });
        joined.collect()
    });
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let batches = parts.iter().map(|part| part.samples.len()).min().unwrap_or(0);
    Ok(Measured {
        value: parts.iter().map(|part| part.value).sum(),
        samples: (0..batches).map(|at| parts.iter().map(|part| part.samples[at]).sum()).collect(),
        elapsed_ns: parts.iter().map(|part| part.elapsed_ns).max().unwrap_or(0),
        ..Measured::default()
    })
}

fn one_batch<K: Kernel>(mut kernel: K) -> impl FnMut(u64) -> Result<u64, Failure> {
    move |units| timed(|| (0..units).try_for_each(|_| check(kernel.run(), K::EXPECTED)))
}

/// Measures one operation's latency on the trial's first CPU.
pub(crate) fn operation_latency(
    operation: Operation,
    trial: &Trial,
    pace: &mut Pace,
) -> Result<Measured, Failure> {
    batch::measure(trial.budget, Scale::nanos(f64::from(latency::STEPS)), pace, |units| {
        timed(|| {
            let right = (0..units).fold(true, |right, _| right & latency::run(operation));
            if right { Ok(()) } else { check(0, 1) }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn corrupted_fails<K: Kernel>() {
        let trial = Trial::for_test(Duration::from_millis(2));
        assert!(one(K::default(), &trial, &mut Pace::default()).is_ok());
        let mut kernel = K::default();
        kernel.corrupt();
        let failure = one(kernel, &trial, &mut Pace::default()).unwrap_err();
        assert!(failure.answer.contains("is right"), "{failure}");
    }

    #[test]
    fn a_corrupted_result_is_a_failure_and_not_a_figure() {
        corrupted_fails::<list::List>();
        corrupted_fails::<matrix::Matrix>();
        corrupted_fails::<state_machine::StateMachine>();
        corrupted_fails::<crc::Crc>();
    }

    #[test]
    fn results_are_the_same_every_time() {
        fn twice<K: Kernel>() {
            let mut kernel = K::default();
            assert_eq!((kernel.run(), kernel.run()), (K::EXPECTED, K::EXPECTED));
        }
        twice::<list::List>();
        twice::<matrix::Matrix>();
        twice::<state_machine::StateMachine>();
        twice::<crc::Crc>();
    }
}
