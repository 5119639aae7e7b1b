//! Collects evidence that the emulated machine failed rather than the tested program; such evidence is the only
//! reason to run a test again.
//!
//! QEMU's emulated CPUs fail in two known ways (docs/nested.md). In the first way, the outer machine stops: it answers
//! no command, and its kernel reports stalls on the console or one of its CPUs executes for ten seconds with interrupts
//! disabled; or one of its CPUs answers, and its kernel reports that another CPU is stuck in the kernel. In the second
//! way, a guest in it stops: its virtual CPU runs and accepts no interrupt, because an interrupt was delivered twice.
//! Both are detected outside of the tested program: on the console of the outer machine, in QEMU's monitor, and in KVM's
//! counters in the machine. No error text of Tautline counts as evidence.
//!
//! QEMU itself ends if the memory map changes while a thread of an emulated CPU is accessing a page (`iotlb_to_section`,
//! seen in QEMU 10.0).
//!
//! Another failure happens in QEMU before 8.1 while a kernel boots: one CPU executes the breakpoint with which another
//! CPU is replacing an instruction, after the replacement has ended, and the kernel panics at `int3`. A guest whose
//! kernel fails in its boot is booted once more, because no tested program has run in it.
//!
//! Evidence is kept for each thread, because a machine belongs to the thread that started it. Each repetition is
//! printed, counted in the file that `TAUTLINE_STANDSTILLS` names, and refused after that file has [`BUDGET`] lines.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// How many repetitions one run of all tests may have.
const BUDGET: usize = 3;
/// The variable that names the file of counted repetitions.
const COUNTED_IN: &str = "TAUTLINE_STANDSTILLS";
/// The texts that Linux writes on its console if no CPU makes progress, if the thread of a guest's CPU faulted on its
/// fault handler's stack after a #VMEXIT, down to the guard page, and if a CPU executed a breakpoint that is no longer
/// in the kernel's code. The last is QEMU's own text, before it ends: the memory map changed while a thread of an
/// emulated CPU was accessing a page.
const STALLS: [&str; 6] = [
    "detected stalls on CPUs",
    "self-detected stall",
    SOFT_LOCKUP,
    "TASK stack guard page was hit",
    "int3: 0000 [#",
    "iotlb_to_section: Assertion",
];

/// The text that Linux writes on its console if a CPU has not left the kernel for 20 s.
const SOFT_LOCKUP: &str = "soft lockup";

thread_local! {
    static EVIDENCE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records evidence for the test that runs on this thread.
pub(crate) fn note(evidence: String) {
    EVIDENCE.with_borrow_mut(|all| all.push(evidence));
}

/// The line of a console in which the kernel reports a stall.
pub(crate) fn stall(console: &str) -> Option<&str> {
    console.lines().find(|line| STALLS.iter().any(|words| line.contains(words))).map(str::trim)
}

/// The line of a console in which the kernel reports that one CPU is stuck in the kernel itself. No program can cause
/// this report, not even one with a real-time priority: the watchdog's thread has a higher priority than all others.
pub(crate) fn stuck(console: &str) -> Option<&str> {
    console.lines().find(|line| line.contains(SOFT_LOCKUP)).map(str::trim)
}

/// Runs a test in an emulated machine; runs it a second time if it failed and there is evidence that the machine
/// failed.
///
/// # Panics
/// Panics with the panic of the test.
pub fn once_more(test: impl Fn()) {
    let counted_in = std::env::var_os(COUNTED_IN);
    with_evidence(test, counted_in.as_deref().map(Path::new), &mut io::stderr());
}

fn with_evidence(test: impl Fn(), counted_in: Option<&Path>, printed_to: &mut dyn Write) {
    EVIDENCE.take();
    let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
    if !repeats("the test runs", &EVIDENCE.take(), counted_in, printed_to) {
        resume_unwind(panic);
    }
    test();
}

/// Boots a machine; boots it a second time if the boot failed and there is evidence that the machine failed.
///
/// # Errors
/// The causes of the last boot.
pub(crate) fn boot<T, E>(boot: impl Fn() -> Result<T, E>) -> Result<T, E> {
    let counted_in = std::env::var_os(COUNTED_IN);
    boot_with_evidence(boot, counted_in.as_deref().map(Path::new), &mut io::stderr())
}

fn boot_with_evidence<T, E>(
    boot: impl Fn() -> Result<T, E>,
    counted_in: Option<&Path>,
    printed_to: &mut dyn Write,
) -> Result<T, E> {
    let earlier = EVIDENCE.with_borrow(Vec::len);
    boot().or_else(|error| {
        let evidence = EVIDENCE.with_borrow_mut(|all| all.split_off(earlier));
        if repeats("it boots", &evidence, counted_in, printed_to) { boot() } else { Err(error) }
    })
}

/// Whether the evidence is a reason for a repetition, which is printed and counted.
fn repeats(what: &str, evidence: &[String], counted_in: Option<&Path>, printed_to: &mut dyn Write) -> bool {
    let counted = counted_in.map_or(0, |file| fs::read_to_string(file).unwrap_or_default().lines().count());
    if evidence.is_empty() || counted >= BUDGET {
        return false;
    }
    let evidence = evidence.join("; ").replace('\n', " ");
    let line = format!("the emulated machine failed, {what} once more: {evidence}");
    // `println!` is not used, because the harness withholds its output if the test passes in the end.
    let _ = writeln!(printed_to, "{line}");
    if let Some(file) = counted_in {
        let count = fs::OpenOptions::new().create(true).append(true).open(file);
        count.and_then(|mut file| writeln!(file, "{line}")).expect("a repetition is counted");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Whether a test that fails once passes, in how many runs, and what was printed.
    fn fails_once(counted_in: Option<&Path>, fail: impl Fn()) -> (bool, usize, String) {
        let (runs, mut printed) = (Cell::new(0), Vec::new());
        let test = || {
            runs.set(runs.get() + 1);
            if runs.get() == 1 {
                fail();
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| with_evidence(test, counted_in, &mut printed)));
        (outcome.is_ok(), runs.get(), String::from_utf8(printed).unwrap())
    }

    #[test]
    fn only_evidence_runs_a_test_again() {
        let (passed, runs, printed) = fails_once(None, || {
            note("planted evidence".into());
            panic!("as it should in this test")
        });
        assert!(passed && runs == 2 && printed.contains("planted evidence"), "{printed}");
        // The words of a failure are none, whatever they say.
        let (passed, runs, printed) = fails_once(None, || panic!("TimedOut {{ no answer within 30 s"));
        assert!(!passed && runs == 1 && printed.is_empty());
        // Nor is what an earlier test of this thread left.
        note("of an earlier test".into());
        assert_eq!(fails_once(None, || panic!("as it should in this test")).1, 1);
    }

    #[test]
    fn a_boot_is_repeated_once_for_evidence_of_its_own() {
        let boots = |fail: &dyn Fn()| {
            let (count, mut printed) = (Cell::new(0), Vec::new());
            let boot = || {
                count.set(count.get() + 1);
                fail();
                if count.get() == 2 { Ok(()) } else { Err("no answer within 30 s") }
            };
            (boot_with_evidence(boot, None, &mut printed).is_ok(), count.get(), printed.len())
        };
        EVIDENCE.take();
        let (booted, count, printed) = boots(&|| note("planted evidence".into()));
        assert!(booted && count == 2 && printed > 0);
        // Evidence of an earlier guest of this test is none for this one.
        note("of an earlier guest".into());
        assert_eq!(boots(&|| ()), (false, 1, 0));
    }

    #[test]
    fn repetitions_are_counted_and_have_a_budget() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("standstills");
        let failing = || {
            fails_once(Some(&file), || {
                note("planted\nevidence".into());
                panic!("as it should in this test")
            })
        };
        for count in 1..=BUDGET {
            assert!(failing().0);
            assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), count);
        }
        assert!(!failing().0, "the budget is spent");
    }

    #[test]
    fn a_console_shows_a_stall_of_its_kernel() {
        let console =
            "[   10.1] usb 1-1: new device\n[   42.0] watchdog: BUG: soft lockup - CPU#0 stuck\nlogin:";
        assert_eq!(stall(console), Some("[   42.0] watchdog: BUG: soft lockup - CPU#0 stuck"));
        assert_eq!(stuck(console), stall(console));
        let busy = "[   35.1] rcu: INFO: rcu_preempt self-detected stall on CPU";
        assert_eq!(
            (stall(busy), stuck(busy)),
            (Some(busy), None),
            "a program of real-time priority can cause it"
        );
        let patched = "[    1.6] Oops: int3: 0000 [#1] SMP PTI\r";
        assert_eq!(stall(patched), Some(patched.trim()));
        let ended = "qemu-system-x86_64: system/physmem.c:2671: iotlb_to_section: Assertion `a < b' failed.";
        assert_eq!(stall(ended), Some(ended));
        assert_eq!(stall("[   10.1] systemd: no answer within 30 s, TimedOut"), None);
    }
}
