//! `tautline kvm trace`.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use kvm::trace::{self, Times, Tracer};
use lab::traced::exits::{self, Watch};
use tables::kvm::exits::{page, text, times};

use crate::cli::KvmTrace;
use crate::exit::{self, Done};
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &KvmTrace) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let pid = match (arguments.pid, &arguments.domain) {
        (Some(pid), _) => pid,
        (None, name) => trace::pid_of_domain(name.as_deref().unwrap_or_default())?,
    };
    let mut view = Live::new(pid, &sink);
    let mut drawn = Ok(());
    let mut look = |tracer: &Tracer| {
        drawn = view.look(tracer);
        if drawn.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let progress = output::progress();
    let mut watch = Watch { pid, time: arguments.time, progress: &progress, live: None };
    if arguments.live {
        watch.live = Some(&mut look);
    }
    let trace = exits::trace(&mut watch)?;
    drawn?;
    sink.put(|_, _| text(&trace), || Ok(serde_json::to_string(&trace)?))?;
    exit::unless_interrupted(Done::Whole)
}

/// Renders a results file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    crate::show::redraw(file, "kvm trace", sink, html, |trace, _| text(trace), page)
}

/// The time between two outputs of `--live`.
const INTERVAL: Duration = Duration::from_secs(1);

/// `--live`: the events since the last output, printed again each second.
struct Live<'a> {
    pid: u32,
    sink: &'a Sink,
    /// `None` before the first reading.
    last: Option<Instant>,
    before: Times,
}

impl<'a> Live<'a> {
    fn new(pid: u32, sink: &'a Sink) -> Self {
        Self { pid, sink, last: None, before: Times::default() }
    }

    /// Draws it, if it is time to.
    fn look(&mut self, tracer: &Tracer) -> anyhow::Result<()> {
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
            |_, _| format!("{title}\n\n{}", times(&found, elapsed.as_secs_f64())),
            || Ok(serde_json::to_string(&found)?),
        )?;
        self.before = now;
        Ok(())
    }
}
