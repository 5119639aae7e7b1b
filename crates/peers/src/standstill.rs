//! An emulated machine that stands still: its own kernel says that no CPU got on for many seconds.
//!
//! QEMU 7.2's emulated CPUs do that now and then, with and without a guest in them: both threads run, 25 000 times a
//! second through `x86_cpu_exec_interrupt` and the lock around it, while the kernel in the machine reports RCU stalls
//! and soft lockups in its idle tasks. What starts it is not known; what makes a guest within
//! stand still is, in part (docs/nested.md). That is no answer to what a test asks.
//!
//! Nor is its kernel's end in the thread of a guest's CPU: rarely, the first fault after a #VMEXIT faults again, and so
//! on down the whole stack, until it meets the stack's guard page. No program of ours has a part in that.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::guest::NO_ANSWER;

/// What Linux says then, if it still does; and, the last two, what there is of a stock QEMU in the machine that ends
/// in a stock guest's first instructions without a word.
const SAYS: [&str; 9] = [
    NO_ANSWER,
    // The same of a guest that `tautline` has started in the machine.
    "no answer within",
    // A limit that is a multiple of what a busy machine takes. What never ends for another reason runs out of tries.
    "TimedOut {",
    "detected stalls on CPUs",
    "self-detected stall",
    "soft lockup",
    "TASK stack guard page was hit",
    "booting a guest in the nested machine\", answer: \"\" }",
    "QEMU (-accel kvm) ended with exit status: 0\"",
];
/// It has been seen twice in a row.
const TRIES: usize = 3;

/// Runs a test in such a machine; once more, which is printed, where the machine stood still.
pub fn once_more(test: impl Fn()) {
    for _ in 1..TRIES {
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        let said = panic.downcast_ref::<String>().map_or("", String::as_str);
        if !SAYS.iter().any(|words| said.contains(words)) {
            resume_unwind(panic);
        }
        // Not by println!, which the harness keeps back where the test passes in the end.
        let _ = writeln!(io::stderr(), "The emulated machine stood still; once more. It said: {said}");
    }
    test();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_a_standstill_is_asked_about_again() {
        let fails_once = |words: &'static str| {
            let runs = Cell::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                once_more(|| {
                    runs.set(runs.get() + 1);
                    assert!(runs.get() > 1, "{words}");
                })
            }));
            (outcome.is_ok(), runs.get())
        };
        assert_eq!(fails_once("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"), (true, 2));
        assert_eq!(fails_once("TimedOut { doing: \"running `ping` in the guest\", limit: 60s }"), (true, 2));
        assert_eq!(
            fails_once("the guest has ended: BUG: TASK stack guard page was hit at 0000000087a76cd4"),
            (true, 2)
        );
        assert_eq!(fails_once("3 packets of 4"), (false, 1));
    }
}
