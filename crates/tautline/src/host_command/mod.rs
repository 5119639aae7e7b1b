//! `tautline host`: what a host lacks for real-time guests, and how to change it.

mod change;
mod export;
mod interrupts;
mod subject;
mod verify;

pub use change::describe;

use host::Survey;
use serde::Serialize;

use crate::cli::host::{self as arguments, HostCommand};
use crate::exit::Done;
use crate::output::Sink;
use subject::{looked_at, made, record, write};

/// Runs the command.
pub fn run(command: &HostCommand) -> anyhow::Result<Done> {
    match command {
        HostCommand::Audit(arguments) => audit(arguments),
        HostCommand::Plan(arguments) => plan(arguments),
        HostCommand::Apply(arguments) => change::apply(arguments),
        HostCommand::Verify(arguments) => verify::run(arguments),
        HostCommand::Undo(arguments) => change::undo(arguments),
        HostCommand::Interrupts(arguments) => interrupts::run(arguments),
        HostCommand::Export(arguments) => export::run(arguments),
    }
}

fn audit(arguments: &arguments::Audit) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let (mut tree, _folder) = looked_at(&arguments.subject.root)?;
    if arguments.record.is_some() {
        tree = tree.recording();
    }
    let wishes = arguments.subject.wishes(arguments.watch);
    let audit = host::Audit::of(&Survey::of(&tree, &wishes)?);
    if let Some(file) = &arguments.record {
        // Also reads the data from which a plan is made, if a plan can be made here.
        let _ = made(&tree, &arguments.subject);
        record(&tree, file)?;
    }
    show(&sink, &audit, |width| audit.render(width))?;
    Ok(if arguments.gate && !audit.passed() { Done::ThresholdExceeded } else { Done::Whole })
}

fn plan(arguments: &arguments::Plan) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let (tree, _folder) = looked_at(&arguments.subject.root)?;
    let plan = made(&tree, &arguments.subject)?;
    if arguments.tuned {
        write(&arguments.results_to.output, &plan.tuned)?;
    } else {
        show(&sink, &plan, |width| plan.render(width))?;
    }
    Ok(Done::Whole)
}

fn show<T: Serialize>(sink: &Sink, value: &T, text: impl Fn(usize) -> String) -> anyhow::Result<()> {
    sink.put(|width, _| text(width), || Ok(serde_json::to_string_pretty(value)?))
}
