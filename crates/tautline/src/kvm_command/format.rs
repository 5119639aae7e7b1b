//! Where results go, and in which form.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::exit::Done;
use crate::output;

/// Options of every command of `kvm`.
#[derive(Args, Debug)]
pub struct Output {
    /// How to print the results.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Where to; - is the standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table.
    Text,
    /// One JSON object with all that was measured.
    Json,
}

impl Output {
    fn file(&self) -> Option<&Path> {
        (self.output.as_os_str() != "-").then_some(&self.output)
    }

    /// Finds out before a long run that the file could not be written after it.
    pub fn require_writable(&self) -> anyhow::Result<()> {
        output::require_writable(self.file())
    }

    /// Writes the results; the text is made for so many columns.
    pub fn write(
        &self,
        results: &impl Serialize,
        text: impl FnOnce(usize) -> String,
    ) -> anyhow::Result<Done> {
        match (self.format, self.file()) {
            (Format::Json, Some(file)) => measure::save_json(results, file)?,
            (Format::Json, None) => output::print(&(serde_json::to_string(results)? + "\n"))?,
            (Format::Text, Some(file)) => std::fs::write(file, text(output::width()))
                .with_context(|| format!("writing {}", file.display()))?,
            (Format::Text, None) => output::print(&text(output::width()))?,
        }
        Ok(Done::Whole)
    }
}
