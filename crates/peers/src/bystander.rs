//! Prints figures of well-behaved ports that run beside a misbehaving port, even if the test passes.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

/// The frames of the well-behaved ports over a whole test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bystander {
    /// The longest latency of a frame.
    pub worst_latency: Duration,
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
}

impl Bystander {
    /// Prints one line: the misbehaving side, and these figures.
    pub fn print(&self, beside: &str) {
        let Bystander { worst_latency, sent, lost } = self;
        print(beside, format_args!("worst latency {worst_latency:.1?}, {sent} frames sent, {lost} lost"));
    }
}

/// Prints one line: the misbehaving side, and other figures.
pub fn print(beside: &str, what: impl Display) {
    let line = format!("bystander beside {beside}: {what}\n");
    // `println!` is not used, because the harness withholds its output if the test passes. One write keeps the text in
    // one piece beside other tests.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The name of the test that runs on this thread, as the test harness prints it.
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}
