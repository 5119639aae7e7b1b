//! `tautline ctl watch`: prints rates at every interval.
use control::{Client, Request};
use linux::interrupt;

use crate::cli;
use crate::exit::{Done, failed};
use crate::output::{self, Sink};

pub fn run(connect: impl Fn() -> anyhow::Result<Client>, arguments: &cli::CtlWatch) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let mut client = connect()?;
    let mut before = client.ask(Request::Stats).map_err(failed)?;
    let mut looks = 0;
    while arguments.count.is_none_or(|count| looks < count) && (sink.file().is_some() || !output::is_unread())
    {
        interrupt::pause(arguments.interval)?;
        let now = client.ask(Request::Stats).map_err(failed)?;
        output::redraw(&sink)?;
        sink.put(|width, _| tables::ctl::rates(&before, &now, width), || Ok(serde_json::to_string(&now)?))?;
        before = now;
        looks += 1;
    }
    Ok(Done::Whole)
}
