//! `tautline ctl watch`: rates, again and again.
use linux::interrupt;

use super::client::Client;
use super::tables;
use crate::cli;
use crate::exit::Done;
use crate::output::{self, Sink};
use crate::switch_command::protocol::Request;

pub fn run(connect: impl Fn() -> anyhow::Result<Client>, arguments: &cli::CtlWatch) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let mut client = connect()?;
    let mut before = client.ask(Request::Stats)?;
    let mut looks = 0;
    while arguments.count.is_none_or(|count| looks < count) && (sink.file().is_some() || !output::is_unread())
    {
        interrupt::pause(arguments.interval)?;
        let now = client.ask(Request::Stats)?;
        output::redraw(&sink)?;
        sink.put(|width, _| tables::rates(&before, &now, width), || Ok(serde_json::to_string(&now)?))?;
        before = now;
        looks += 1;
    }
    Ok(Done::Whole)
}
