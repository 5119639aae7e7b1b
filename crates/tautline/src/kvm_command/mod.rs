//! `tautline kvm`: what a virtual machine costs, exit by exit.

mod costs;
mod path;
mod trace;

use crate::cli::{Kvm, KvmCommand};
use crate::exit::Done;

/// Runs the command.
pub fn run(arguments: &Kvm) -> anyhow::Result<Done> {
    match &arguments.command {
        KvmCommand::Costs(arguments) => costs::run(arguments),
        KvmCommand::Trace(arguments) => trace::run(arguments),
        KvmCommand::Path(arguments) => path::run(arguments),
    }
}
