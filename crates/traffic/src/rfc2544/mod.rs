//! A run of `tautline rfc2544`: packet rates and latencies of any vhost-user switch, by the searches of
//! [`search`](crate::search).
mod back_to_back;
mod bench;
mod frame_loss;
mod job;
mod measure;
mod run_error;
mod search;

use std::cell::RefCell;
use std::path::PathBuf;

use linux::interrupt;
use port::Port;

use crate::path::{Path, Topology};
use crate::recorder::Recorder;
use crate::results::{Run, SCHEMA};
use crate::rig::TestRig;
pub use job::{BurstJob, FULL_TRIAL, Job, LEAST_FPS, Method, SOFTWARE_TAP};
pub use run_error::RunError;

/// The fields of a results file that are known before anything is measured.
pub struct Begun {
    /// When the run began, UTC, RFC 3339.
    pub started: String,
    /// The command that repeats the run, word by word.
    pub command: Vec<String>,
}

/// Connects the ports, measures all sizes, and saves the results in `file` after each trial. `say` is called with
/// what is being done.
///
/// # Errors
/// A port cannot be connected, no peer comes, or the file cannot be written at the end. The error of a run that ended
/// early is returned together with the results so far.
pub fn run(
    job: &Job,
    ports: Vec<(&str, Box<dyn Port>)>,
    begun: Begun,
    file: Option<PathBuf>,
    say: &dyn Fn(String),
) -> Result<(Run, Result<(), RunError>), RunError> {
    let mut rig = TestRig::new();
    rig.stop_when(interrupt::is_set);
    let topology = if job.to.is_some() { Topology::Through } else { Topology::Loop };
    let count = ports.len();
    for (name, port) in ports {
        rig.attach(name, port)?;
    }
    rig.wait_until_up(job.timeout).map_err(or_interrupted)?;
    let ports = (0..count).map(|number| rig.describe(number)).collect();
    let mut path = Path::new(rig, topology, job.profile);
    let run = Run {
        schema: SCHEMA.to_owned(),
        tautline: env!("CARGO_PKG_VERSION").to_owned(),
        started: begun.started,
        elapsed_s: 0.0,
        complete: false,
        host: ::measure::host_facts::HostFacts::gather(),
        command: begun.command,
        ports,
        labels: job.labels(),
        quick: job.is_quick(),
        maximum_trial_ns: job.maximum_trial().as_nanos() as u64,
        latency_trial_ns: job.latency_trial().as_nanos() as u64,
        sizes: Vec::new(),
        unfinished: None,
    };
    let recorder = RefCell::new(Recorder::new(run, file));
    let ended = job.mixes.iter().try_for_each(|mix| {
        recorder.borrow_mut().begin_size(mix.to_string());
        let size = measure::size(&mut path, mix, job, say, &recorder).map_err(or_interrupted)?;
        // The results so far are kept in any case.
        Ok(recorder.borrow_mut().end_size(size)?)
    });
    let recorder = recorder.into_inner();
    let run = if ended.is_ok() { recorder.finish()? } else { recorder.abandon() };
    Ok((run, ended))
}

/// The error itself, or that the user wanted to end.
fn or_interrupted(error: impl Into<RunError>) -> RunError {
    interrupt::check().map_or_else(Into::into, |()| error.into())
}
