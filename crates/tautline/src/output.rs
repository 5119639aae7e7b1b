//! Output for the user: results, pages, remarks and progress.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use linux::interrupt;
use linux::progress::{Detail, Progress};
use measure::Results;
use report::gate::GateOutcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::{Cli, Color, Format, ResultsTo};
use crate::exit::Usage;

/// Lines end here where the output is no terminal.
const DEFAULT_WIDTH: usize = 120;

/// The settings of all output.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    color: bool,
    detail: Detail,
}

static LOOK: OnceLock<Look> = OnceLock::new();

/// Reads `--color`, `--quiet` and `--verbose`. Must be called once, before anything is printed.
pub fn configure(cli: &Cli) {
    // https://no-color.org: any value but an empty one.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let color = match cli.color {
        Color::Auto => std::io::stdout().is_terminal() && !refused,
        Color::Always => true,
        Color::Never => false,
    };
    let detail = match (cli.quiet, cli.verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Steps,
        _ => Detail::Normal,
    };
    let _ = LOOK.set(Look { color, detail });
}

fn look() -> Look {
    LOOK.get().copied().unwrap_or_default()
}

/// Whether the standard output is coloured.
pub fn color() -> bool {
    look().color
}

/// A progress line, as verbose as the user wants.
pub fn progress() -> Progress {
    Progress::start(look().detail)
}

/// A line on the error output, which is no result.
pub fn remark(line: &str) {
    if look().detail != Detail::Quiet {
        eprintln!("{}", printable(line, false));
    }
}

/// Text that is safe to print to a terminal: control characters are replaced.
pub fn printable(text: &str, color: bool) -> String {
    report::units::page(text, color)
}

/// The destination and the form of the results, decided before the command begins.
#[derive(Clone, Debug)]
pub struct Sink {
    format: Format,
    file: Option<PathBuf>,
}

impl Sink {
    /// Reads the options. Fails at once if the file cannot be written, so that no long run is lost.
    pub fn open(to: &ResultsTo) -> anyhow::Result<Self> {
        let file = (to.output != Path::new("-")).then(|| to.output.clone());
        require_writable(file.as_deref())?;
        let by_name = file.as_ref().and_then(|file| file.extension()).is_some_and(|word| word == "json");
        let format = to.format.unwrap_or(if by_name { Format::Json } else { Format::Text });
        Ok(Sink { format, file })
    }

    /// The file that holds the results as JSON while they are gathered, if the user wants one.
    pub fn json_file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|_| self.format == Format::Json)
    }

    /// Whether programs read the standard output.
    pub fn is_json_printed(&self) -> bool {
        self.file.is_none() && self.format == Format::Json
    }

    /// Whether results are JSON, wherever they go.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// The file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Writes final results. `text` is called with the width and whether to colour.
    pub fn put(
        &self,
        text: impl Fn(usize, bool) -> String,
        json: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        self.put_short(&text, |width| text(width, false), json)
    }

    /// Writes final results that have a short form: `short` is printed, `whole` written to a text file.
    pub fn put_short(
        &self,
        short: impl Fn(usize, bool) -> String,
        whole: impl FnOnce(usize) -> String,
        json: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        if self.is_json_printed() {
            return self.save(String::new, json);
        }
        // A full disk takes the file, and not what a person sees.
        let printed = print(&short(width(), color()));
        self.save(|| whole(DEFAULT_WIDTH), json)?;
        printed
    }

    /// Writes final results except the text, which was printed while they were measured.
    pub fn save(
        &self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        match (&self.file, self.format) {
            (Some(file), Format::Json) => write_whole(file, &(json()? + "\n")),
            (Some(file), Format::Text) => write_whole(file, &printable(&text(), false)),
            (None, Format::Json) => print_as_it_is(&(json()? + "\n")),
            (None, Format::Text) => Ok(()),
        }
    }
}

/// Clears the terminal, if the output is one: the next text replaces the former.
pub fn redraw(sink: &Sink) -> anyhow::Result<()> {
    if sink.is_json_printed() || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    // Home, and all below it cleared: the terminal keeps what was there before.
    print_as_it_is("\x1b[H\x1b[J")
}

fn write_whole(file: &Path, text: &str) -> anyhow::Result<()> {
    linux::save::save(file, |out| out.write_all(text.as_bytes())).with_context(|| {
        format!("writing {}; see that the disk has room, or name another file with --output", file.display())
    })
}

/// From now on SIGINT, SIGTERM and SIGHUP are found by [`interrupt::is_set`].
pub fn catch_interrupts() -> anyhow::Result<()> {
    interrupt::catch().context("catching signals")
}

/// Checks before a long run that a file can be written after it.
pub fn require_writable(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let usable = folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    if usable && !path.is_dir() {
        return Ok(());
    }
    Err(Usage(format!(
        "{}: cannot be written; name a file in a folder that exists and may be written",
        path.display()
    ))
    .into())
}

/// Writes the page of one run, or of two compared runs.
pub fn write_page(path: &Path, runs: &[Results], outcomes: &[GateOutcome]) -> anyhow::Result<()> {
    write_html(path, &report::html::render_with_gate(runs, outcomes))
}

/// Writes an HTML page.
pub fn write_html(path: &Path, page: &str) -> anyhow::Result<()> {
    std::fs::write(path, printable(page, false))
        .with_context(|| format!("writing the page to {}", path.display()))
}

/// A line for each limit: on the standard output below a table, on the error output beside JSON.
pub fn print_gate(sink: &Sink, outcomes: &[GateOutcome]) -> anyhow::Result<()> {
    outcomes.iter().try_for_each(|outcome| match sink.is_json_printed() {
        true => {
            eprintln!("{}", printable(&format!("gate: {outcome}"), false));
            Ok(())
        }
        false => print(&format!("gate: {outcome}\n")),
    })
}

/// Prints text for people to the standard output. A reader that went away (`| head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&printable(text, color()))
}

/// Prints text for programs to the standard output. A reader that went away is no error.
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing to the standard output"),
    }
}

/// Whether the reader of the standard output has gone.
pub fn is_unread() -> bool {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// The width of the terminal.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// The CPUs that this process may use.
pub fn usable_cpus() -> anyhow::Result<Vec<usize>> {
    linux::cpus::usable().context("asking for the CPUs this process may use")
}
