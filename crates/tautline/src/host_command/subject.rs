//! The host that a command reads, and what is written for other programs.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use environment::{Folder, Janitor};
use host::{HostTree, Survey, recorded};

use crate::cli::host::Subject;
use crate::exit::Usage;
use crate::output;

/// The plan for a host.
pub fn made(tree: &HostTree, subject: &Subject) -> anyhow::Result<host::Plan> {
    let wishes = subject.wishes(Duration::ZERO);
    Ok(host::Plan::of(&Survey::of(tree, &wishes)?))
}

/// The live host, or a recorded one.
pub fn tree(root: &Path) -> anyhow::Result<HostTree> {
    if root == Path::new("/") {
        return Ok(HostTree::live());
    }
    let root = root.canonicalize().map_err(|error| {
        Usage(format!("--root {}: {error}; name a recorded host's file or folder", root.display()))
    })?;
    Ok(HostTree::at(root))
}

/// The live host, or a recorded one, for reading only. A file of a recorded host is unpacked into a folder, which
/// is removed when the second value is dropped.
pub fn looked_at(root: &Path) -> anyhow::Result<(HostTree, Option<Folder>)> {
    if !root.is_file() {
        return Ok((tree(root)?, None));
    }
    let reading = || format!("reading the recorded host {}", root.display());
    let mut text = String::new();
    let file = std::fs::File::open(root).with_context(reading)?;
    file.take(recorded::MOST_BYTES as u64).read_to_string(&mut text).with_context(reading)?;
    if text.len() == recorded::MOST_BYTES {
        bail!("{}: it has {} MiB or more, which no recorded host has", reading(), recorded::MOST_BYTES >> 20);
    }
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let folder = Folder::make("recorded", &Arc::new(Janitor::start(&binary)?))?;
    recorded::unpack(&text, folder.path()).with_context(reading)?;
    Ok((HostTree::at(folder.path()), Some(folder)))
}

/// Writes everything that was read of a host to a file, with the host it was read from.
pub fn record(tree: &HostTree, file: &Path) -> anyhow::Result<()> {
    let Some(recording) = tree.recorded() else { return Ok(()) };
    let kernel = tree.read("/proc/version").unwrap_or_else(|unread| unread.to_string());
    let comment = format!(
        "Recorded by `tautline host audit --record`, {}: {}",
        env!("CARGO_PKG_VERSION"),
        kernel.lines().next().unwrap_or_default()
    );
    write(file, &recording.text(&comment))
}

/// Writes text for another program to a file or the standard output.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        return output::print(text);
    }
    std::fs::File::create(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}; name a file in a folder that may be written", file.display()))
}
