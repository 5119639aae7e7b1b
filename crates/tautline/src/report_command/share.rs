//! `tautline report --share`: makes one archive of a run to share. Names of this machine and of its users are
//! looked up here; `report::share` takes them out.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use measure::Results;
use measure::host_facts::HostFacts;
use report::share::{self, Scrubber};
use serde_json::Value;

use crate::exit::{Done, Usage};
use crate::output;

/// The user numbers of persons, as assigned by systemd and shadow.
const PEOPLE: std::ops::Range<u32> = 1000..60_000;

pub(super) fn run(file: &Path, archive: &Path, is_confirmed: bool) -> anyhow::Result<Done> {
    let results = Results::load(file)?;
    output::require_writable(Some(archive))?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let (audit, doctor) = of_this_machine(&results);
    let mut scrubber = Scrubber::new(names());
    let whole = share::archive(&results, audit, doctor, &mut scrubber);
    let wrong = share::check(&whole);
    if !wrong.is_empty() {
        bail!("making an archive of {}: {}; nothing was written", file.display(), wrong.join("; "));
    }
    println!("{}", share::preview(&whole, &scrubber));
    if !is_confirmed {
        if !is_terminal {
            let words = "nothing was written; look through what is printed above, then add --yes";
            return Err(Usage(words.to_owned()).into());
        }
        eprint!("Write this to {}? [y/N] ", archive.display());
        std::io::stderr().flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).context("reading the answer")?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            println!("nothing was written");
            return Ok(Done::Whole);
        }
    }
    measure::save_json(&whole, archive)?;
    println!("written: {}", archive.display());
    Ok(Done::Whole)
}

/// The results in an archive.
pub(super) fn load(file: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let read =
        || -> Result<Results, serde_json::Error> { share::results(&serde_json::from_slice::<Value>(&text)?) };
    read().with_context(|| format!("reading the results in {}; is it whole?", file.display()))
}

/// The audit and the output of doctor, if the results are of this machine.
fn of_this_machine(results: &Results) -> (Option<Value>, Option<Value>) {
    let here = HostFacts::gather();
    if (&here.cpu_model, here.cpus_online) != (&results.host.cpu_model, results.host.cpus_online) {
        eprintln!("tautline: the results are of another machine: audit and doctor are left out");
        return (None, None);
    }
    (document(&["host", "audit"]), document(&["doctor"]))
}

/// The JSON output of a command of this program. `None`, with a remark, if it prints none.
fn document(words: &[&str]) -> Option<Value> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).args(words).args(["--quiet", "--format", "json"]).output();
    let found = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    if found.is_none() {
        eprintln!("tautline: `tautline {}` gave no document: the archive has none", words.join(" "));
    }
    found
}

/// Names of this machine and its users, each with its substitute.
fn names() -> Vec<(String, &'static str)> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let short = host.split('.').next().unwrap_or_default().to_owned();
    let mut names = vec![(host, "\u{2039}host\u{203a}"), (short, "\u{2039}host\u{203a}")];
    let variables = ["USER", "LOGNAME", "SUDO_USER"].into_iter().filter_map(|name| std::env::var(name).ok());
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let people = accounts.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse::<u32>().ok()?);
        PEOPLE.contains(&number).then(|| name.to_owned())
    });
    names.extend(variables.chain(people).map(|name| (name, "\u{2039}user\u{203a}")));
    names
}
