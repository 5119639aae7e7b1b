//! Single system calls, page faults and signals.

use measure::Failure;
use rustix::process::{Signal, getpid, kill_process};

use super::failure::call_failed;
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::facts::page_bytes;
use crate::sys::{self, Area, Pages};
use crate::trial::Trial;

/// A system call or event of one process without helper processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Syscall,
    SignalInstall,
    SignalDeliver,
    PageFault,
    MapUnmap,
}

impl Call {
    pub(crate) const ALL: [Call; 5] =
        [Call::Syscall, Call::SignalInstall, Call::SignalDeliver, Call::PageFault, Call::MapUnmap];

    /// The rest of the metric's name and the title.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Call::Syscall => ("syscall", "system call (getppid)"),
            Call::SignalInstall => ("signal.install", "signal handler installation"),
            Call::SignalDeliver => ("signal.deliver", "signal delivery to a handler and back"),
            Call::PageFault => ("page_fault", "page fault, anonymous, first touch"),
            Call::MapUnmap => ("mmap", "mmap 64 KiB, touch a page, munmap"),
        }
    }

    /// Measures it.
    pub(crate) fn measure(self, trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
        let per_call = Scale::nanos(1.0);
        match self {
            Call::Syscall => batch::measure(trial.budget, per_call, pace, |units| {
                timed(|| {
                    (0..units).for_each(|_| _ = std::hint::black_box(sys::getppid()));
                    Ok(())
                })
            }),
            Call::SignalInstall => batch::measure(trial.budget, per_call, pace, |units| {
                timed(|| (0..units).try_for_each(|_| install()))
            }),
            Call::SignalDeliver => {
                install()?;
                batch::measure(trial.budget, per_call, pace, deliver)
            }
            Call::PageFault => page_faults(trial, pace),
            Call::MapUnmap => {
                const BYTES: usize = 64 << 10;
                batch::measure(trial.budget, per_call, pace, |units| {
                    timed(|| {
                        (0..units).try_for_each(|_| sys::map_touch_unmap(BYTES)).map_err(call_failed("mmap"))
                    })
                })
            }
        }
    }
}

fn install() -> Result<(), Failure> {
    sys::install_counter(Signal::USR1).map_err(call_failed("installing a signal handler"))
}

/// Sends itself signals. Each is delivered on the way back from the call that sent it.
fn deliver(units: u64) -> Result<u64, Failure> {
    let (this, before) = (getpid(), sys::signals_counted());
    let elapsed_ns = timed(|| {
        (0..units)
            .try_for_each(|_| kill_process(this, Signal::USR1))
            .map_err(call_failed("sending itself a signal"))
    })?;
    let counted = sys::signals_counted() - before;
    if counted == units {
        return Ok(elapsed_ns);
    }
    Err(Failure::new(
        format!("sending itself {units} signals"),
        format!("{counted} were delivered"),
        "see whether something else sends SIGUSR1 to the agent or blocks it",
    ))
}

/// Pages touched in one go. Giving them back is not timed.
const PAGES: usize = 256;

fn page_faults(trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    let words_in_page = page_bytes() / size_of::<u64>();
    let mut area = Area::map(PAGES * page_bytes(), Pages::Small).map_err(call_failed("mmap"))?;
    batch::measure(trial.budget, Scale::nanos(PAGES as f64), pace, |units| {
        let mut elapsed_ns = 0;
        for _ in 0..units {
            area.discard().map_err(call_failed("madvise(MADV_DONTNEED)"))?;
            let words = area.words_mut();
            elapsed_ns += timed(|| {
                words.iter_mut().step_by(words_in_page).for_each(|word| *word = 1);
                std::hint::black_box(&mut *words);
                Ok(())
            })?;
        }
        Ok(elapsed_ns)
    })
}
