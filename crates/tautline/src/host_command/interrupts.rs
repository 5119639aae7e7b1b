//! `tautline host interrupts`.

use lab::traced::interrupts::{Ask, prove};
use linux::interrupt;

use crate::cli::host::Interrupts;
use crate::exit::Done;
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &Interrupts) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let progress = output::progress();
    let Interrupts { pid, time, guest, .. } = arguments;
    let proof = prove(&Ask { pid: *pid, time: *time, guest, progress: &progress })?;
    let text = |width, _| tables::host_interrupts::text(&proof, width);
    sink.put(text, || Ok(serde_json::to_string(&proof)?))?;
    interrupt::check()?;
    Ok(Done::Whole)
}
