//! `tautline ctl`: inspects and changes a running switch.
mod apply;
mod events;
mod watch;

use std::fs::File;
use std::os::fd::AsFd;

use anyhow::Context;
use control::protocol::{Add, FlowsChange};
use control::{Client, ClientError, PortDescription, Request};
use linux::interrupt;
use serde_json::Value;

use crate::cli::{self, CtlCommand, FlowsCommand, OfBridge};
use crate::exit::{Done, Usage, failed};
use crate::output::{self, Sink};

/// How long the switch may take to write what it has captured.
const FLUSH: std::time::Duration = std::time::Duration::from_secs(10);

/// Sends one request to a running switch and prints the answer.
pub fn run(arguments: &cli::Ctl) -> anyhow::Result<Done> {
    let connect = || {
        let mut client = Client::connect(&arguments.socket)?;
        client.end_waiting_if(interrupt::is_set);
        Ok(client)
    };
    match &arguments.command {
        CtlCommand::Ports(look) => ask(connect, &look.results_to, Request::Ports, tables::ctl::ports),
        CtlCommand::Stats(look) => ask(connect, &look.results_to, Request::Stats, tables::ctl::stats),
        CtlCommand::Drops(look) => ask(connect, &look.results_to, Request::Drops, tables::ctl::drops),
        CtlCommand::Rings(look) => ask(connect, &look.results_to, Request::Rings, tables::ctl::rings),
        CtlCommand::Watch(watch) => watch::run(connect, watch),
        CtlCommand::Events(arguments) => events::run(connect, arguments),
        CtlCommand::Apply(arguments) => apply::run(connect, arguments),
        CtlCommand::Add(add) => {
            let cli::CtlAdd { port, allow, max_frame, flood_limit, police, results_to } = add;
            let wrong = |why| Usage(format!("{port}: {why}"));
            let (name, described) = daemon::described(port).map_err(wrong)?;
            let (allow, police) = (allow.clone(), police.clone());
            let (max_frame, flood_limit) = (*max_frame, *flood_limit);
            let port = PortDescription { allow, max_frame, flood_limit, police, ..described };
            let request = Request::Add(Add::Described { name: name.clone(), port });
            ask(connect, results_to, request, |_, _| format!("{name}: added\n"))
        }
        CtlCommand::Remove(remove) => {
            let request = Request::Remove { port: remove.port.clone() };
            ask(connect, &remove.results_to, request, |_, _| format!("{}: removed\n", remove.port))
        }
        CtlCommand::Mirror(mirror) => {
            let cli::CtlMirror { from, to, results_to } = mirror;
            let request = Request::Mirror { from: from.clone(), to: to.clone(), only: None };
            let done = format!("{from}: mirrored to {to}; 'remove mirror-of-{from}' ends it\n");
            ask(connect, results_to, request, |_, _| done.clone())
        }
        CtlCommand::Flows(command) => run_flows(connect, command),
        CtlCommand::Capture(capture) => run_capture(connect, capture),
    }
}

fn ask(
    connect: impl Fn() -> anyhow::Result<Client>,
    results_to: &cli::ResultsTo,
    request: Request,
    text: impl Fn(&Value, usize) -> String,
) -> anyhow::Result<Done> {
    let sink = Sink::open(results_to)?;
    output::catch_interrupts()?;
    let answer = connect()?.ask(request).map_err(failed)?;
    put(&sink, &answer, text)
}

fn put(sink: &Sink, answer: &Value, text: impl Fn(&Value, usize) -> String) -> anyhow::Result<Done> {
    sink.put(|width, _| text(answer, width), || Ok(serde_json::to_string_pretty(answer)?))?;
    Ok(Done::Whole)
}

/// Shows or changes flows.
fn run_flows(connect: impl Fn() -> anyhow::Result<Client>, command: &FlowsCommand) -> anyhow::Result<Done> {
    let change = |of: &OfBridge, how, text: &str| {
        let sink = Sink::open(&of.results_to)?;
        output::catch_interrupts()?;
        let answer = connect()?.change_flows(of.bridge.as_deref(), how, text).map_err(failed)?;
        put(&sink, &answer, |answer, _| format!("{} flows\n", answer["flows"]))
    };
    match command {
        FlowsCommand::Dump { matching, of } => {
            let request = Request::FlowsDump { bridge: of.bridge.clone(), matching: matching.clone() };
            ask(&connect, &of.results_to, request, |answer, _| tables::ctl::flows(answer))
        }
        FlowsCommand::Add { flow, of } => change(of, FlowsChange::Add, flow),
        FlowsCommand::Del { matching, strict, of } => {
            let how = if *strict { FlowsChange::DeleteStrict } else { FlowsChange::Delete };
            change(of, how, matching.as_deref().unwrap_or_default())
        }
        FlowsCommand::Replace { file, of } => {
            let wrong = || format!("reading {}; name a file that can be read", file.display());
            change(of, FlowsChange::Replace, &std::fs::read_to_string(file).with_context(wrong)?)
        }
        FlowsCommand::Trace { fields, frame, of } => {
            let (bridge, flow, frame) = (of.bridge.clone(), fields.clone(), frame.clone());
            let request = Request::FlowsTrace { bridge, flow, frame };
            ask(&connect, &of.results_to, request, |answer, _| tables::ctl::trace(answer))
        }
    }
}

fn run_capture(
    connect: impl Fn() -> anyhow::Result<Client>,
    arguments: &cli::CtlCapture,
) -> anyhow::Result<Done> {
    if let Some(Err(why)) = arguments.filter.as_deref().map(daemon::check_filter) {
        return Err(Usage(format!("--filter: {why}")).into());
    }
    output::require_writable(Some(&arguments.output))?;
    output::catch_interrupts()?;
    let mut client = connect()?;
    let what =
        || format!("making {}; name a file in a folder that may be written", arguments.output.display());
    // The switch empties it, unless one of its ports uses it.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&arguments.output)
        .with_context(what)?;
    let request = Request::Capture {
        port: arguments.port.clone(),
        count: arguments.count,
        snaplen: arguments.snaplen,
        filter: arguments.filter.clone(),
    };
    // The switch writes to it, whatever it may open itself.
    client.send(request, Some(file.as_fd()))?;
    let (answer, interrupted) = match client.answer(None) {
        Err(ClientError::Interrupted) => {
            client.send(Request::EndCapture, None)?;
            client.end_waiting_if(|| false);
            (client.answer(Some(FLUSH))?, true)
        }
        answer => (answer.map_err(failed)?, false),
    };
    let figure = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (captured, dropped) = (figure("captured"), figure("dropped"));
    output::print(&match arguments.format {
        Some(cli::Format::Json) => format!("{answer}\n"),
        _ => format!("{captured} frames captured, {dropped} dropped for want of room\n"),
    })?;
    if interrupted {
        return Err(interrupt::Interrupted.into());
    }
    anyhow::ensure!(
        answer["port_is_gone"] != true,
        "capturing '{}': the port was removed, or the switch has ended or was taken over; what passed before that is in {}",
        arguments.port,
        arguments.output.display()
    );
    Ok(Done::Whole)
}
