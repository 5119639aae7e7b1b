//! `tautline crypto bench`: a device compared with direct calls of the library.

use std::ops::ControlFlow;

use crypto_driver::bench::{Algorithm, Job};
use lab::Origin;
use linux::interrupt;
use tables::crypto::{Results, SCHEMA};

use crate::cli;
use crate::exit::{self, Done};
use crate::output::{self, Sink};

/// Measures every algorithm and size.
pub fn run(arguments: &cli::CryptoBench) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let job = Job {
        path: arguments.to.clone(),
        algorithms: match arguments.algorithms.as_slice() {
            [] => Algorithm::ALL.to_vec(),
            some => some.to_vec(),
        },
        sizes: arguments.sizes.clone(),
        depth: arguments.depth,
        packed: arguments.packed,
        blocks: arguments.blocks,
        trial: arguments.trial,
        patience: arguments.timeout,
    };
    let origin = Origin::now(SCHEMA)?;
    let progress = output::progress();
    let rows = crypto_driver::bench::run(&job, &mut |algorithm, bytes| {
        progress.doing(format!("{algorithm}: {bytes} bytes"));
        if interrupt::is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    progress.finish();
    let results = Results {
        origin,
        target: job.path,
        packed: job.packed,
        depth: job.depth,
        trial_ns: job.trial.as_nanos() as u64,
        rows,
    };
    sink.put(|width, _| tables::crypto::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    exit::unless_interrupted(Done::Whole)
}
