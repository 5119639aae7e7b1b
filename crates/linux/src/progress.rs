//! What the user sees meanwhile. Everything vanishes, or is not drawn at all, where the error output is no
//! terminal.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How much is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing at all.
    Quiet,
    /// A line that changes, where the error output is a terminal; and what stays.
    #[default]
    Normal,
    /// As `Normal`, and a line for each step where the error output is no terminal.
    Steps,
}

/// A line of progress on the error output.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    detail: Detail,
    /// Stands behind what is done, until it is replaced.
    remark: RefCell<String>,
}

impl Progress {
    /// A line that says what is done; no steps are counted yet.
    pub fn start(detail: Detail) -> Self {
        let bar = match detail {
            Detail::Quiet => ProgressBar::hidden(),
            Detail::Normal | Detail::Steps => ProgressBar::new_spinner(),
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, detail, remark: RefCell::default() }
    }

    /// What is being done.
    pub fn doing(&self, what: impl Into<String>) {
        let what = what.into();
        if self.detail == Detail::Steps && self.bar.is_hidden() {
            eprintln!("{what}");
        }
        self.bar.set_message(what + &*self.remark.borrow());
    }

    /// What is known so far: it stands behind what is done, where the error output is a terminal.
    pub fn remark(&self, words: &str) {
        *self.remark.borrow_mut() = format!("  | {words}");
    }

    /// From now on `steps` steps are counted, with an estimate of the time left.
    pub fn count(&self, steps: u64) {
        let style = "{bar:30} {percent:>3} %  {eta} left  {wide_msg}";
        self.bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
        self.bar.set_length(steps);
        self.bar.reset_eta();
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// A line that stays, such as an environment that was lost.
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

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
