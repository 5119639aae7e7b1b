//! The progress that the user sees. Progress is drawn only if the error output is a terminal, and is erased at the
//! end.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How much is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing at all.
    Quiet,
    /// A changing line if the error output is a terminal, and lines that stay.
    #[default]
    Normal,
    /// As `Normal`; and a line for each step if the error output is no terminal.
    Steps,
}

/// A line of progress on the error output.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    detail: Detail,
    /// A remark that is shown after the present step, until it is replaced.
    remark: RefCell<String>,
}

impl Progress {
    /// A progress line that counts no steps yet.
    pub fn start(detail: Detail) -> Self {
        let bar = match detail {
            Detail::Quiet => ProgressBar::hidden(),
            Detail::Normal | Detail::Steps => ProgressBar::new_spinner(),
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, detail, remark: RefCell::default() }
    }

    /// Sets the text of the present step.
    pub fn doing(&self, what: impl Into<String>) {
        let what = what.into();
        if self.detail == Detail::Steps && self.bar.is_hidden() {
            eprintln!("{what}");
        }
        self.bar.set_message(what + &*self.remark.borrow());
    }

    /// Sets the remark that is shown after the present step if the error output is a terminal.
    pub fn remark(&self, words: &str) {
        *self.remark.borrow_mut() = format!("  | {words}");
    }

    /// Begins to count `steps` steps, with an estimate of the time left.
    pub fn count(&self, steps: u64) {
        let style = "{bar:30} {percent:>3} %  {eta} left  {wide_msg}";
        self.bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
        self.bar.set_length(steps);
        self.bar.reset_eta();
    }

    /// Notes that one step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints a line that stays, for example about an environment that was lost.
    pub fn note(&self, line: &str) {
        if self.detail == Detail::Quiet {
            return;
        }
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// Erases the progress line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
