//! `tautline report`: redraw, or compare two runs. The file names the command that wrote it.

use std::path::Path;

use anyhow::Context;
use measure::Results;
use measure::compare::analyse;
use report::diff::Diff;
use report::gate::Gate;
use report::several::Several;

use crate::cli;
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};
use crate::show::{Shown, is_of};
use crate::{gate, kvm_command, rfc2544, scenario_command, show, tti_command};

mod share;

type Redraw = fn(&Path, &Sink, Option<&Path>) -> anyhow::Result<Done>;

/// Files that a page is drawn of, one at a time, by the schema of each.
const REDRAWN: &[(&str, Redraw)] = &[
    (kvm::costs::SCHEMA, kvm_command::costs::show),
    (lab::traced::path::SCHEMA, kvm_command::path::show),
    (lab::traced::exits::SCHEMA, kvm_command::trace::show),
    (lab::traced::worst::SCHEMA, kvm_command::worst::show),
    (scenario_command::SCHEMA, scenario_command::show),
    (lab::tti::SCHEMA, tti_command::show),
];

/// Runs the command.
pub fn run(arguments: &cli::Report) -> anyhow::Result<Done> {
    if let Some(archive) = &arguments.share {
        let [file] = &arguments.files[..] else {
            return Err(Usage("--share makes an archive of one results file; give one".to_owned()).into());
        };
        return share::run(file, archive, arguments.yes);
    }
    let gate = gate::load(&arguments.reported.limits)?;
    let sink = Sink::open(&arguments.reported.results_to)?;
    let html = arguments.reported.html.as_deref();
    output::require_writable(html)?;
    let kinds = arguments.files.iter().map(|file| kind_of(file)).collect::<Result<Vec<_>, _>>()?;
    if let ([file], [kind]) = (&arguments.files[..], &kinds[..])
        && let Some((_, show)) = REDRAWN.iter().find(|(schema, _)| is_of(kind, schema))
    {
        return show(file, &sink, html);
    }
    if let Some(done) = rfc2544::report(&arguments.files, &kinds, &sink, html, gate.as_ref())? {
        return Ok(done);
    }
    let runs = arguments.files.iter().zip(&kinds).map(|(file, kind)| load(file, kind));
    of_compare(runs.collect::<anyhow::Result<_>>()?, &sink, html, gate.as_ref())
}

/// The schema that a file names, if it names one. For any other schema, `compare` says what is wrong with the file.
fn kind_of(file: &Path) -> anyhow::Result<Option<String>> {
    let text = std::fs::read(file).with_context(|| {
        format!("reading results from {}; give a file that --output FILE.json wrote", file.display())
    })?;
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(value.and_then(|value| Some(value.get("schema")?.as_str()?.to_owned())))
}

/// A run of `compare`, from its file or from an archive of it.
fn load(file: &Path, kind: &Option<String>) -> anyhow::Result<Results> {
    if is_of(kind, report::share::SCHEMA) { share::load(file) } else { Ok(Results::load(file)?) }
}

fn of_compare(
    mut runs: Vec<Results>,
    sink: &Sink,
    html: Option<&Path>,
    gate: Option<&Gate>,
) -> anyhow::Result<Done> {
    let judged = |run: &Results| gate.map(|gate| gate.evaluate(run, &analyse(run))).unwrap_or_default();
    let outcomes = match &mut runs[..] {
        [run] => show::results(run, Shown::Tables, sink, html, gate)?,
        [before, after] => {
            let diff = Diff::new(before, after);
            sink.put(
                |width, color| diff.render(width, color),
                || Ok(serde_json::to_string(&diff.document())?),
            )?;
            judged(after)
        }
        all => {
            // A trend goes by time, in whatever order a shell names the files.
            all.sort_by(|one, other| one.started.cmp(&other.started));
            let several = Several::new(all);
            sink.put(
                |width, color| several.render(width, color),
                || Ok(serde_json::to_string(&several.document())?),
            )?;
            all.last().map(judged).unwrap_or_default()
        }
    };
    if let (Some(page), true) = (html, runs.len() > 1) {
        output::write_page(page, &runs, &outcomes)?;
    }
    output::print_gate(sink, &outcomes)?;
    Ok(gate::done(&outcomes))
}
