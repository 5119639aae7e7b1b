//! `tautline torture`: hostile front-ends for any back-end.

use linux::interrupt::{self, Interrupted};
use torture::{Amount, BackEnd, Bystander, CryptoBystander, Family, Plan, Requests, Target, Undisturbed};

use crate::cli::Torture;
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};
use lab::Origin;
use tables::torture::{Results, SCHEMA};

/// Runs the command.
pub fn run(arguments: &Torture) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let path = arguments
        .target
        .strip_prefix("vhost-user:")
        .filter(|path| !path.is_empty())
        .ok_or_else(|| Usage(format!("{}: name a back-end as vhost-user:PATH", arguments.target)))?;
    let named = arguments
        .only
        .iter()
        .map(|name| name.parse::<Family>().map_err(|error| Usage(format!("--only: {error}")).into()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    output::catch_interrupts()?;
    let origin = Origin::now(SCHEMA)?;
    let mut target = BackEnd::new(path.into(), arguments.command.clone(), arguments.timeout)?;
    let plan = Plan {
        families: if named.is_empty() { torture::families_of(target.path()) } else { named },
        amount: arguments
            .count
            .map_or(Amount::Cases { of_each: arguments.cases, time: arguments.time }, Amount::Seen),
        first: arguments.first,
        seed: arguments.seed,
        check_every: arguments.check_every,
        patience: arguments.timeout,
    };
    let (mut bystander, mut requests) = (None, None);
    match arguments.beside.as_slice() {
        [one, other] => bystander = Some(Bystander::start([one, other], arguments.beside_rate)?),
        [_] if arguments.turn.is_some() => {
            return Err(Usage("--turn: name two sockets of a switch with --beside".into()).into());
        }
        [one] => requests = Some(CryptoBystander::start(one)?),
        [] => {}
        _ => {
            return Err(
                Usage("--beside: name two sockets of a switch, or one of a crypto device".into()).into()
            );
        }
    }
    let progress = output::progress();
    let families = torture::run(&mut target, &plan, &mut |counts| {
        progress.doing(format!(
            "{}: {} cases, {} findings",
            counts.family.name(),
            counts.cases,
            counts.findings.len()
        ));
        if let (Some(bystander), Some(turn)) = (&mut bystander, arguments.turn)
            && bystander.turn() >= turn
        {
            bystander.rest(turn / 4);
        }
        !interrupt::is_set()
    });
    // A run of less than a turn is one, too.
    if let (Some(bystander), Some(turn)) = (&mut bystander, arguments.turn)
        && !bystander.has_turns()
        && !interrupt::is_set()
    {
        bystander.rest(turn / 4);
    }
    progress.finish();
    let beside = bystander.map(Bystander::end).transpose();
    let requests_beside = requests.map(CryptoBystander::end).transpose()?;
    let families = families?;
    let results = Results {
        origin,
        target: target.path().to_owned(),
        command: arguments.command.clone(),
        seed: arguments.seed,
        families,
        beside: beside?,
        requests_beside,
    };
    sink.put(|width, _| tables::torture::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    if interrupt::is_set() {
        return Err(anyhow::Error::new(Interrupted).context("what was done until then is shown above"));
    }
    let found = results.families.iter().any(|family| !family.findings.is_empty());
    let disturbed = results.beside.as_ref().is_some_and(Undisturbed::is_disturbed)
        || results.requests_beside.as_ref().is_some_and(Requests::is_disturbed);
    Ok(if found || disturbed { Done::ThresholdExceeded } else { Done::Whole })
}
