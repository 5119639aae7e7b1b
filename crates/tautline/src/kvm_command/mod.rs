//! `tautline kvm`: what a virtual machine costs, exit by exit.

pub mod costs;
pub mod path;
pub mod trace;
pub mod worst;

use crate::cli::{Kvm, KvmCommand};
use crate::exit::Done;

/// Runs the command.
pub fn run(arguments: &Kvm) -> anyhow::Result<Done> {
    match &arguments.command {
        KvmCommand::Costs(arguments) => costs::run(arguments),
        KvmCommand::Trace(arguments) => trace::run(arguments),
        KvmCommand::Path(arguments) => path::run(arguments),
        KvmCommand::Worst(arguments) => worst::run(arguments),
    }
}
