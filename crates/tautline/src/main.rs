//! The command line: parse, validate, call, exit code.
//!
//! # Where to change what
//!
//! - To change what a command takes: `cli/`. To change what the command does with it: the module of
//!   that name. The crate `lab` measures, and the crate `tables` prints results.
#![forbid(unsafe_code)]

mod agent;
mod cli;
mod compare_command;
mod cpu_list;
mod ctl;
mod doctor;
mod exit;
mod gate;
mod host_command;
mod kvm_command;
#[cfg_attr(not(feature = "all-commands"), path = "left_out.rs")]
mod more;
mod output;
mod report_command;
mod show;
mod switch_command;
mod tti_command;
mod vm_command;

use std::process::ExitCode;

use clap::Parser;
use more::{
    agent_command, crypto_command, packaging, rfc2544, scenario_command, torture_command, vdpa_command,
};

fn main() -> ExitCode {
    // This binary is also the agent, a guest's init and the janitor. Those parts run before any code that starts threads
    // or reads a user's command line.
    if let Some(code) = agent::dispatch() {
        return code;
    }
    let cli = cli::Cli::parse();
    output::configure(&cli);
    let result = match cli.command {
        cli::Command::Doctor(arguments) => doctor::run(&arguments),
        cli::Command::Compare(arguments) => compare_command::run(&arguments),
        cli::Command::Switch(arguments) => switch_command::run(&arguments),
        cli::Command::Crypto(arguments) => crypto_command::run(&arguments),
        cli::Command::Vdpa(arguments) => vdpa_command::run(&arguments),
        cli::Command::Ctl(arguments) => ctl::run(&arguments),
        cli::Command::Rfc2544(arguments) => rfc2544::run(&arguments),
        cli::Command::Kvm(arguments) => kvm_command::run(&arguments),
        cli::Command::Agent(arguments) => agent_command::run(&arguments),
        cli::Command::Host(command) => host_command::run(&command),
        cli::Command::Scenario(arguments) => scenario_command::run(&arguments),
        cli::Command::Torture(arguments) => torture_command::run(&arguments),
        cli::Command::Tti(arguments) => tti_command::run(&arguments),
        cli::Command::Vm(command) => vm_command::run(&command),
        cli::Command::Report(arguments) => report_command::run(&arguments),
        cli::Command::Completions(arguments) => packaging::completions(&arguments),
        cli::Command::Man(arguments) => packaging::man(&arguments),
    };
    exit::code(result)
}
