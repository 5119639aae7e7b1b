//! The command line of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;

use super::EXIT_CODES;

/// Arguments of `completions`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Completions {
    /// bash, elvish, fish, powershell or zsh.
    #[arg(value_enum, hide_possible_values = true)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Man {
    /// The folder for the pages: one page for each command.
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}
