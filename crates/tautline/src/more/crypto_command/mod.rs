//! `tautline crypto`: serves crypto devices behind vhost-user sockets until a signal ends it.

mod bench;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use linux::interrupt::{self, Interrupted};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use signal_hook::consts::SIGTERM;
use signal_hook::flag;

use crate::exit::Done;
use crate::{cli, output};

/// Serves the devices until a signal ends it, or measures one device.
pub fn run(arguments: &cli::Crypto) -> anyhow::Result<Done> {
    if let Some(cli::CryptoCommand::Bench(arguments)) = &arguments.command {
        return bench::run(arguments);
    }
    // Keys are all over this process, and so is what guests encipher.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("keep keys out of core dumps")?;
    output::catch_interrupts()?;
    // A guest that shortens its memory file must not end the devices of others.
    let _guard = memory::TruncationGuard::install()
        .context("catching SIGBUS; see that the system lets this process handle signals")?;
    let terminated = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, terminated.clone()).context("catching signals")?;
    crypto_device::run(&arguments.port, |line| output::remark(&line.to_string()), || !interrupt::is_set())?;
    // As `switch` does: SIGTERM is how a service is told to end.
    if !terminated.load(Ordering::Relaxed) {
        return Err(anyhow::Error::new(Interrupted).context("stopped serving"));
    }
    Ok(Done::Whole)
}
