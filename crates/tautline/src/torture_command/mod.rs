//! `tautline torture`: hostile front-ends for any back-end.

mod results;
mod table;
mod target;

use linux::interrupt::{self, Interrupted};
use torture::{Bystander, Family, Plan, Target as _};

use crate::cli::Torture;
use crate::exit::{Done, Usage};
use crate::origin::Origin;
use crate::output::{self, Sink};
use results::Results;
use target::Target;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-torture/1";

/// Runs the command.
pub fn run(arguments: &Torture) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let path = arguments
        .target
        .strip_prefix("vhost-user:")
        .filter(|path| !path.is_empty())
        .ok_or_else(|| Usage(format!("{}: name a back-end as vhost-user:PATH", arguments.target)))?;
    let families = match arguments.only.as_slice() {
        [] => Family::ALL.to_vec(),
        names => names
            .iter()
            .map(|name| name.parse::<Family>().map_err(|error| Usage(format!("--only: {error}")).into()))
            .collect::<anyhow::Result<_>>()?,
    };
    let plan = Plan {
        families,
        cases: arguments.cases,
        first: arguments.first,
        time: arguments.time,
        seed: arguments.seed,
        check_every: arguments.check_every,
        patience: arguments.timeout,
    };
    output::catch_interrupts()?;
    let origin = Origin::now(SCHEMA)?;
    let mut target = Target::new(path.into(), arguments.command.clone(), arguments.timeout)?;
    let bystander = match arguments.beside.as_slice() {
        [from, to] => Some(Bystander::start(from, to)?),
        [] => None,
        _ => return Err(Usage("--beside: name two sockets".into()).into()),
    };
    let progress = output::progress();
    let families = torture::run(&mut target, &plan, &mut |counts| {
        progress.doing(format!(
            "{}: {} cases, {} findings",
            counts.family.name(),
            counts.cases,
            counts.findings.len()
        ));
        !interrupt::is_set()
    });
    progress.finish();
    let beside = bystander.map(Bystander::end).transpose();
    let families = families?;
    let results = Results {
        origin,
        target: target.path().to_owned(),
        command: arguments.command.clone(),
        seed: arguments.seed,
        families,
        beside: beside?,
    };
    sink.put(|width, _| table::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    if interrupt::is_set() {
        return Err(anyhow::Error::new(Interrupted).context("what was done until then is shown above"));
    }
    let found = results.families.iter().any(|family| !family.findings.is_empty());
    let lost = results.beside.is_some_and(|beside| beside.received < beside.sent);
    Ok(if found || lost { Done::ThresholdExceeded } else { Done::Whole })
}
