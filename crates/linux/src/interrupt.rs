//! SIGINT, SIGTERM and SIGHUP, which end a run of the user, set one flag of this process. Functions that wait check
//! it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// How long [`pause`] sleeps between two checks of the flag.
const SLICE: Duration = Duration::from_millis(50);

/// A signal of the user ended the work before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted; everything that was started has been ended")]
pub struct Interrupted;

/// Installs the handlers: from now on these signals set the flag and no longer end the process.
///
/// # Errors
/// `sigaction` or the memory for the handlers is refused.
pub fn catch() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&FLAG))?;
    }
    Ok(())
}

/// Whether a signal has come.
pub fn is_set() -> bool {
    FLAG.load(Ordering::Relaxed)
}

/// Checks the flag.
///
/// # Errors
/// One of the signals has come since [`catch`].
pub fn check() -> Result<(), Interrupted> {
    if is_set() { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps for `time`, or until one of the signals has come.
///
/// # Errors
/// One of the signals has come, before the call or during it.
pub fn pause(time: Duration) -> Result<(), Interrupted> {
    let until = Instant::now() + time;
    loop {
        check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLICE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_noticed_and_ends_a_pause() {
        catch().unwrap();
        assert_eq!(check(), Ok(()));
        assert_eq!(pause(Duration::from_millis(1)), Ok(()));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(is_set());
        assert_eq!(pause(Duration::from_secs(1000)), Err(Interrupted));
    }
}
