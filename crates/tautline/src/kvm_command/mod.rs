//! `tautline kvm`: what a virtual machine costs, exit by exit.

mod costs;
mod format;
mod trace;

use clap::{Args, Subcommand};

use crate::exit::Done;

/// Arguments of `kvm`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The commands of `kvm`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Unit costs as distributions: exits, interrupts, wake-ups, faults. Needs no guest: it brings a tiny one.
    Costs(costs::Arguments),
    /// The exits of a running guest, counted in the kernel by reason and virtual CPU.
    Trace(trace::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<Done> {
    match &arguments.command {
        Command::Costs(arguments) => costs::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
    }
}
