//! What is known of a guest that gave no answer, for the text of the error.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::control::Silence;
use super::{Guest, monitor};
use crate::process::tail;
use crate::{Error, standstill};

/// How long the guest may take for an empty command.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks at the CPUs' registers.
const BETWEEN: Duration = Duration::from_secs(1);
/// After so many looks a CPU counts as locked up: for as long a time without interrupts, Linux's own detector calls a
/// lockup hard (`kernel.watchdog_thresh`, 10 s).
const LOOKS: u32 = 11;
/// The interrupt flag of an x86 CPU: Intel SDM, volume 1, section 3.4.3.
const INTERRUPT_FLAG: u32 = 0x200;

impl Guest {
    /// The error of a command without an answer. Evidence that the emulator or its kernel failed is recorded.
    pub(super) fn explain(&self, doing: &str, silence: Silence, limit: Duration) -> Error {
        self.note_standstill();
        match silence {
            Silence::Ended => Error::refused(doing, format!("the guest has ended: {}", self.qemu.ending())),
            Silence::TimedOut => Error::TimedOut { doing: doing.to_owned(), limit, said: self.silence() },
        }
    }

    /// Records evidence that the machine failed. If it answers no command: the kernel's report of a stall on the
    /// console, or a CPU that QEMU's monitor shows locked up. If it answers: the kernel's report that one of its other
    /// CPUs is stuck in the kernel.
    fn note_standstill(&self) {
        let (answers, console) = (self.answers(), self.console());
        let reported = if answers { standstill::stuck(&console) } else { standstill::stall(&console) };
        let evidence = match reported {
            Some(line) => format!("its console says \"{line}\""),
            None if answers => return,
            None => match self.locked_up() {
                Some(locked_up) => locked_up,
                None => return,
            },
        };
        let answer = if answers { "an answer" } else { "no answer" };
        standstill::note(format!("{evidence}, and `true` has {answer}"));
    }

    /// Whether the guest answers an empty command.
    pub(super) fn answers(&self) -> bool {
        self.control.send("true", PATIENCE).is_ok_and(|id| self.control.output(id, PATIENCE).is_ok())
    }

    /// Whether the guest answers an empty command, the end of its console, and the positions of its CPUs at two
    /// instants if QEMU answers.
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

    /// The position of a CPU that executed with interrupts disabled at each of [`LOOKS`] looks, one a second. `None` if
    /// there is no such CPU, or QEMU does not answer.
    pub(super) fn locked_up(&self) -> Option<String> {
        let mut locked = without_interrupts(&self.positions()?);
        for _ in 1..LOOKS {
            if locked.is_empty() {
                return None;
            }
            std::thread::sleep(BETWEEN);
            let now = without_interrupts(&self.positions()?);
            locked.retain(|cpu, _| now.contains_key(cpu));
        }
        let (cpu, position) = locked.pop_first()?;
        Some(format!("{cpu}, at first at {position}, accepted no interrupt at {LOOKS} looks, one a second"))
    }

    /// The lines of QEMU's registers that show where each CPU is and whether it halts.
    fn positions(&self) -> Option<String> {
        let mut monitor = monitor::connect(self.folder()).ok()?;
        let command = json!({ "command-line": "info registers -a" });
        let registers = monitor.execute_with("human-monitor-command", command).ok()?;
        let lines = registers.as_str()?.lines().filter(|line| line.contains("IP=") || line.contains("CPU#"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The x86 CPUs that execute with interrupts disabled, by name, each with its position, as QEMU prints registers.
fn without_interrupts(positions: &str) -> BTreeMap<String, String> {
    let mut lines = positions.lines().peekable();
    let mut found = BTreeMap::new();
    while let Some(line) = lines.next() {
        if !line.starts_with("CPU#") {
            continue;
        }
        let registers = lines.next_if(|line| line.contains("IP=")).unwrap_or_default();
        let value = |name: &str| registers.split_whitespace().find_map(|word| word.strip_prefix(name));
        let flags =
            value("RFL=").or_else(|| value("EFL=")).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        if flags.is_some_and(|flags| flags & INTERRUPT_FLAG == 0) && value("HLT=") == Some("0") {
            let position = value("RIP=").or_else(|| value("EIP=")).unwrap_or_default();
            found.insert(line.to_owned(), position.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_executes_with_interrupts_disabled_is_found() {
        let printed = "CPU#0\nRIP=ffffffffae800ba0 RFL=00000046 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0\n\
                       CPU#1\nRIP=ffffffffae65267b RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0\n\
                       CPU#2\nRIP=ffffffffae65267b RFL=00000046 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\n";
        let found = without_interrupts(printed);
        assert_eq!(found, BTreeMap::from([("CPU#0".to_owned(), "ffffffffae800ba0".to_owned())]));
        assert!(without_interrupts("CPU#0\nPC=ffff800080010000 X00=0000000000000000\n").is_empty());
    }
}
