//! The commands that `make compare` does not build: each says how to get it.

use std::path::{Path, PathBuf};

use report::gate::Gate;

use crate::cli::LeftOut;
use crate::exit::{Done, Usage};
use crate::output::Sink;

pub use self::{run as completions, run as man};
pub(crate) use super::more::{
    self as agent_command, self as crypto_command, self as packaging, self as rfc2544,
    self as scenario_command, self as torture_command, self as vdpa_command,
};

/// The schema of files that `scenario` writes.
pub const SCHEMA: &str = "tautline-scenario/1";

/// Fails with the remedy.
pub fn run(_: &LeftOut) -> anyhow::Result<Done> {
    Err(missing("this command"))
}

pub fn show(_: &Path, _: &Sink, _: Option<&Path>) -> anyhow::Result<Done> {
    Err(missing("what draws files of `scenario`"))
}

/// None, if no file is of `rfc2544`.
pub fn report(
    _: &[PathBuf],
    kinds: &[Option<String>],
    _: &Sink,
    _: Option<&Path>,
    _: Option<&Gate>,
) -> anyhow::Result<Option<Done>> {
    let is_one = kinds.iter().flatten().any(|kind| kind.starts_with("tautline-rfc2544/"));
    if is_one { Err(missing("what draws files of `rfc2544`")) } else { Ok(None) }
}

fn missing(what: &str) -> anyhow::Error {
    let built = "is not in this program, which `make compare` built";
    Usage(format!("{what} {built}; `make release` builds the whole program")).into()
}
