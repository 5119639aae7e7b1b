//! Files that packages contain besides the binary: completions and man pages, generated from the command line.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{self, Cli};
use crate::exit::Done;
use crate::output;

/// Prints a shell's completions.
pub fn completions(arguments: &cli::Completions) -> anyhow::Result<Done> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tautline", &mut script);
    output::print_as_it_is(&String::from_utf8(script).context("the completions are no text")?)?;
    Ok(Done::Whole)
}

/// Writes a page for the program and one for each command.
pub fn man(arguments: &cli::Man) -> anyhow::Result<Done> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("making the folder {}", directory.display()))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    // Options of the program itself reach the commands.
    command.build();
    write(directory, "tautline", command.clone())?;
    write_subcommands(directory, "tautline", &command)?;
    Ok(Done::Whole)
}

/// `tautline-kvm.1`, `tautline-kvm-costs.1` and so on.
fn write_subcommands(directory: &Path, parent: &str, command: &clap::Command) -> anyhow::Result<()> {
    for subcommand in command.get_subcommands() {
        let name = format!("{parent}-{}", subcommand.get_name());
        write(directory, &name, subcommand.clone().display_name(&name).bin_name(name.replace('-', " ")))?;
        write_subcommands(directory, &name, subcommand)?;
    }
    Ok(())
}

fn write(directory: &Path, name: &str, command: clap::Command) -> anyhow::Result<()> {
    let file = directory.join(format!("{name}.1"));
    let mut page = Vec::new();
    // No date: the same pages from the same source.
    let man = clap_mangen::Man::new(command).title(name.to_uppercase()).date("").source("Tautline");
    man.render(&mut page).context("drawing a man page")?;
    std::fs::write(&file, page).with_context(|| format!("writing {}", file.display()))
}
