//! `tautline ctl apply`: makes a switch have the ports of a file.
use anyhow::Context;
use control::Client;
use control::protocol::{Applied, SCHEMA};
use daemon::{Invalid, settings_file};
use serde_json::json;

use crate::cli;
use crate::exit::{Done, Usage, failed};
use crate::output::{self, Sink};

pub fn run(connect: impl Fn() -> anyhow::Result<Client>, arguments: &cli::CtlApply) -> anyhow::Result<Done> {
    let file = &arguments.file;
    let sink = Sink::open(&arguments.results_to)?;
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("reading {}; name a file that can be read", file.display()))?;
    let settings = settings_file::parse(&text);
    let settings = settings.map_err(|Invalid(why)| Usage(format!("{}: {why}", file.display())))?;
    output::catch_interrupts()?;
    let ports = settings.ports.into_iter().collect();
    let Applied { changes } = connect()?.apply_with_wires(ports, settings.wires).map_err(failed)?;
    let text = || match changes.is_empty() {
        true => "nothing is different\n".to_owned(),
        false => changes.iter().map(|change| format!("{change}\n")).collect(),
    };
    let document = || Ok(serde_json::to_string_pretty(&json!({"schema": SCHEMA, "changes": changes}))?);
    sink.put(|_, _| text(), document)?;
    let failures = changes.iter().filter(|change| change.error.is_some()).count();
    anyhow::ensure!(failures == 0, "{failures} changes could not be made; the others were");
    Ok(Done::Whole)
}
