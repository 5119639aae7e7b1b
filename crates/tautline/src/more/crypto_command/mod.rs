//! `tautline crypto`: serves crypto devices behind vhost-user sockets until a signal ends it.

mod bench;

use anyhow::Context;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::serving::{guard, serve};
use crate::exit::Done;
use crate::{cli, output};

/// Serves the devices until a signal ends it, or measures one device.
pub fn run(arguments: &cli::Crypto) -> anyhow::Result<Done> {
    if let Some(cli::CryptoCommand::Bench(arguments)) = &arguments.command {
        return bench::run(arguments);
    }
    // Keys are all over this process, and so is what guests encipher.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("keep keys out of core dumps")?;
    let _guard = guard()?;
    serve(|goes_on| crypto_device::run(&arguments.port, |line| output::remark(&line.to_string()), goes_on))
}
