//! Services that a signal ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use linux::interrupt::{self, Interrupted};
use signal_hook::consts::SIGTERM;
use signal_hook::flag;

use crate::exit::Done;
use crate::output;

/// Runs a service as long as its argument returns true.
pub fn serve<E>(service: impl FnOnce(&dyn Fn() -> bool) -> Result<(), E>) -> anyhow::Result<Done>
where
    anyhow::Error: From<E>,
{
    output::catch_interrupts()?;
    let terminated = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, terminated.clone()).context("catching signals")?;
    service(&|| !interrupt::is_set())?;
    // As `switch` does: SIGTERM is how a service is told to end.
    if !terminated.load(Ordering::Relaxed) {
        return Err(anyhow::Error::new(Interrupted).context("stopped serving"));
    }
    Ok(Done::Whole)
}

/// Lets a guest shorten its memory file without ending the devices of others.
pub fn guard() -> anyhow::Result<memory::TruncationGuard> {
    memory::TruncationGuard::install()
        .context("catching SIGBUS; see that the system lets this process handle signals")
}
