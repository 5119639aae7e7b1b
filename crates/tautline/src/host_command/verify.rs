//! `tautline host verify`: what a plan's changes give here.

use std::path::Path;
use std::time::Duration;

use host::{HostTree, Survey};
use lab::host_verify::{self, Plan};
use linux::interrupt::Interrupted;

use crate::cli::host::Verify;
use crate::exit::{Done, Usage, early};
use crate::gate;
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &Verify) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    if arguments.subject.root != Path::new("/") {
        return Err(Usage("--root: only the host itself can be measured".into()).into());
    }
    let gate = gate::load(&arguments.limits)?;
    output::catch_interrupts()?;
    let tree = HostTree::live();
    let wishes = arguments.subject.wishes(Duration::ZERO);
    let survey = Survey::of(&tree, &wishes)?;
    if survey.isolated.is_empty() {
        let offline = &survey.isolated_offline;
        let found = match offline.is_empty() {
            true => "no CPU is set aside".to_owned(),
            false => format!("no CPU that is online is set aside; CPUs {offline} are, and are not online"),
        };
        return Err(Usage(format!("{found}: name CPUs with --isolate")).into());
    }
    let plan = Plan {
        rules: arguments.rules.clone(),
        accept: arguments.accept.clone(),
        ablate: arguments.ablate,
        time: arguments.time,
        blocks: arguments.blocks,
        journal: arguments.journal.clone(),
    };
    let verification = host_verify::run(&tree, &survey, &plan, &output::progress()).map_err(early)?;
    let figures = || tables::host_verify::figures(&verification);
    let outcomes = gate.map(|gate| gate.evaluate_figures(&figures())).unwrap_or_default();
    sink.put(
        |width, _| tables::host_verify::render(&verification, width),
        || Ok(serde_json::to_string(&verification)?),
    )?;
    output::print_gate(&sink, &outcomes)?;
    if !verification.complete {
        return Err(anyhow::Error::new(Interrupted).context("what was measured until then is shown above"));
    }
    // A plan of which a part is no longer in force counts as a limit that does not hold.
    Ok(if verification.broken.is_empty() { gate::done(&outcomes) } else { Done::ThresholdExceeded })
}
