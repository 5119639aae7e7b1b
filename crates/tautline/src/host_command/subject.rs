//! The host that a command is about, and what other programs read of it.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use host::tuning::{self, HostTree, Survey};

use crate::cli::host::Subject;
use crate::exit::Usage;
use crate::output;

/// The plan for a host.
pub fn made(tree: &HostTree, subject: &Subject) -> anyhow::Result<tuning::Plan> {
    let wishes = subject.wishes(Duration::ZERO);
    Ok(tuning::Plan::of(&Survey::of(tree, &wishes)?))
}

/// The live host, or a recorded one.
pub fn tree(root: &Path) -> anyhow::Result<HostTree> {
    if root == Path::new("/") {
        return Ok(HostTree::live());
    }
    let root = root.canonicalize().map_err(|error| {
        Usage(format!("--root {}: {error}; name the folder of a recorded host", root.display()))
    })?;
    Ok(HostTree::at(root))
}

/// Writes what another program reads, to a file or the standard output.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        return output::print(text);
    }
    std::fs::File::create(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}; name a file in a folder that may be written", file.display()))
}
