//! `tautline ctl events`: prints events of ports as they occur.
use control::protocol::SCHEMA;
use control::{Client, Event};
use serde_json::json;

use crate::cli::{self, Format};
use crate::exit::{Done, failed};
use crate::output;

pub fn run(connect: impl Fn() -> anyhow::Result<Client>, arguments: &cli::CtlEvents) -> anyhow::Result<Done> {
    output::catch_interrupts()?;
    let mut events = connect()?.subscribe().map_err(failed)?;
    let mut seen = 0;
    while arguments.count.is_none_or(|count| seen < count) && !output::is_unread() {
        let Event { event, port } = events.next(None).map_err(failed)?;
        let line = match arguments.format {
            Some(Format::Json) => json!({"schema": SCHEMA, "event": event, "port": port}).to_string(),
            _ => format!("{port}: {event}"),
        };
        output::print(&(line + "\n"))?;
        seen += 1;
    }
    Ok(Done::Whole)
}
