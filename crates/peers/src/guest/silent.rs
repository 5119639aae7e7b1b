//! What is known of a guest that gave no answer, for the text of the error.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::Guest;
use super::migration::connect_monitor;
use crate::process::tail;

/// How long the guest may take for an empty command.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks at the CPUs' registers.
const BETWEEN: Duration = Duration::from_secs(1);

impl Guest {
    /// Whether the guest answers an empty command.
    pub(super) fn answers(&self) -> bool {
        self.control.send("true", PATIENCE).is_ok_and(|id| self.control.output(id, PATIENCE).is_ok())
    }

    /// Whether the guest answers an empty command, the end of its console, and the positions of its CPUs at two
    /// instants if QEMU has a monitor.
    pub(super) fn silence(&self) -> String {
        let answers = if self.answers() { "an answer" } else { "no answer" };
        let mut said = format!("no answer; `true` has {answers}; the console: {}", tail(&self.console()));
        for look in ["CPUs", "CPUs a second later"] {
            // Writing to a string cannot fail.
            let _ = match self.positions() {
                Some(positions) => write!(said, "\n{look}:\n{positions}"),
                None => Ok(()),
            };
            std::thread::sleep(BETWEEN);
        }
        said
    }

    /// The lines of QEMU's registers that show where each CPU is and whether it halts.
    fn positions(&self) -> Option<String> {
        let mut monitor = connect_monitor(self.folder()).ok()?;
        let command = json!({ "command-line": "info registers -a" });
        let registers = monitor.execute_with("human-monitor-command", command).ok()?;
        let lines = registers.as_str()?.lines().filter(|line| line.contains("IP=") || line.contains("CPU#"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}
