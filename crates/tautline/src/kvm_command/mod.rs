//! `tautline kvm`: what a virtual machine costs, exit by exit.

mod costs;

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
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<Done> {
    match &arguments.command {
        Command::Costs(arguments) => costs::run(arguments),
    }
}
