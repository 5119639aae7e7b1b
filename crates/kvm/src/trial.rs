//! Whether `/dev/kvm` runs an unmodified guest. A guest of a few instructions shows this before a kernel is booted.

use std::time::Duration;

use measure::Failure;

/// Makes a guest execute a hypercall without effect and write to a port, within `limit`.
///
/// A `/dev/kvm` for para-virtualized guests can be opened and makes the machine, but hangs in this test. On other
/// processors than x86-64 nothing is tried, and the result is Ok.
///
/// # Errors
/// The guest cannot be made or run, or does not end within `limit`.
pub fn runs_unmodified_guests(limit: Duration) -> Result<(), Failure> {
    #[cfg(target_arch = "x86_64")]
    return x86::trial(limit);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = limit;
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use measure::Failure;

    use crate::micro_vm::{Arguments, MicroVm, Program, Stop};

    /// How long a thread that was told to stop may take. KVM_RUN returns at a signal.
    const STOP: Duration = Duration::from_secs(1);
    const REMEDY: &str = "run it on a machine whose KVM runs such guests (VMX or SVM)";

    /// Runs the guest on a separate thread, which is told to stop after `limit`.
    ///
    /// # Errors
    /// The guest cannot be made or run, its thread panics, or it does not end within `limit`.
    pub fn trial(limit: Duration) -> Result<(), Failure> {
        let stop = Arc::new(Stop::default());
        let (done, outcome) = channel();
        {
            let stop = stop.clone();
            std::thread::spawn(move || {
                // A send fails once the guest was abandoned.
                let _ = done.send(run(stop));
            });
        }
        match outcome.recv_timeout(limit) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Disconnected) => Err(Failure::panicked("running an unmodified guest")),
            Err(RecvTimeoutError::Timeout) => {
                stop.end()?;
                let _ = outcome.recv_timeout(STOP);
                let answer = format!("a guest of a few instructions came to no end within {limit:?}");
                Err(Failure::new("running an unmodified guest", answer, REMEDY))
            }
        }
    }

    fn run(stop: Arc<Stop>) -> Result<(), Failure> {
        let (_vm, mut vcpus) = MicroVm::new(None, stop)?;
        for program in [Program::hypercall(), Program::OutUser] {
            vcpus[0].run(program, Arguments { samples: 1, ..Arguments::default() })?;
        }
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::time::Instant;

        #[test]
        fn ends_within_its_limit_whatever_kvm_does_and_leaves_no_thread() {
            let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
            let (before, begin) = (threads(), Instant::now());
            let outcome = trial(Duration::from_secs(2));
            println!("{outcome:?} after {:?}", begin.elapsed());
            assert!(begin.elapsed() < Duration::from_secs(30));
            // Its thread ends a moment after it has sent the outcome; the harness has others, which end too.
            while threads() > before {
                assert!(begin.elapsed() < Duration::from_secs(30), "the guest's thread stays");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
