//! `--live`: what came since the last look, drawn again each second.

use std::time::{Duration, Instant};

use kvm::trace::{Times, Tracer};

use super::table;
use crate::output::{self, Sink};

const INTERVAL: Duration = Duration::from_secs(1);

/// The view.
pub struct Live<'a> {
    pid: u32,
    sink: &'a Sink,
    /// None before the first look.
    last: Option<Instant>,
    before: Times,
}

impl<'a> Live<'a> {
    pub fn new(pid: u32, sink: &'a Sink) -> Self {
        Self { pid, sink, last: None, before: Times::default() }
    }

    /// Draws it, if it is time to.
    pub fn look(&mut self, tracer: &Tracer) -> anyhow::Result<()> {
        let last = *self.last.get_or_insert_with(Instant::now);
        let elapsed = last.elapsed();
        if elapsed < INTERVAL {
            return Ok(());
        }
        self.last = Some(Instant::now());
        let now = tracer.read()?;
        let found = now.since(&self.before);
        output::redraw(self.sink)?;
        let title = format!("Process {}: the last {:.2} s; Ctrl-C ends it", self.pid, elapsed.as_secs_f64());
        self.sink.put(
            |_, _| format!("{title}\n\n{}", table::times(&found, elapsed.as_secs_f64())),
            || Ok(serde_json::to_string(&found)?),
        )?;
        self.before = now;
        Ok(())
    }
}
