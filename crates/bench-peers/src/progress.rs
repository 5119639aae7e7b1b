//! One line that says what is measured, and how much is left. It vanishes; without a terminal there is none.
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::Instant;

pub struct Progress {
    shown: bool,
    begin: Instant,
    steps: u64,
    done: Cell<u64>,
}

impl Progress {
    pub fn new(steps: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        Progress { shown, begin: Instant::now(), steps: steps.max(1), done: Cell::new(0) }
    }

    /// One of the steps begins.
    pub fn step(&self, what: &str) {
        self.done.set(self.done.get() + 1);
        self.doing(what);
    }

    /// Something that is not counted begins.
    pub fn doing(&self, what: &str) {
        if self.shown {
            let percent = 100 * self.done.get() / self.steps;
            let seconds = self.begin.elapsed().as_secs();
            let _ = write!(std::io::stderr(), "\r\x1b[K{percent:>3} %  {seconds} s  {what}");
        }
    }

    /// A line that stays.
    pub fn note(&self, line: &str) {
        self.clear();
        eprintln!("{line}");
    }

    pub fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
