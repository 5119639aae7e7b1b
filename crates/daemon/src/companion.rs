//! A thread beside the threads of the switch. Like any other client, the thread asks the switch through the control
//! socket.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

use crate::sandbox;

/// The work of a companion, which gets two functions: one logs a line, the other returns whether to continue.
type Work = Box<dyn FnOnce(&dyn Fn(&str), &dyn Fn() -> bool) + Send>;

/// A thread to run beside the switch. The thread cannot open files. It can connect only to sockets of the file system
/// and to at most one TCP port. Its only capability permits connecting to sockets of other users.
pub struct Companion {
    /// The name of the thread, of at most 15 bytes.
    pub name: String,
    /// The TCP port to which the thread may connect.
    pub tcp_port: Option<u16>,
    /// The work of the thread.
    pub work: Work,
}

impl Companion {
    /// Starts it. The switch does not wait for the thread when it ends. A panic in it ends it alone and is logged.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(crate) fn start(self, log: impl Fn(&str) + Send + 'static) -> io::Result<Ending> {
        let Companion { name, tcp_port, work } = self;
        let ends = Arc::new(AtomicBool::new(false));
        let ending = Ending(Arc::clone(&ends));
        let what = name.clone();
        thread::Builder::new().name(name).spawn(move || {
            sandbox::confine_companion(tcp_port);
            let goes_on = || !ends.load(Ordering::Relaxed);
            if catch_unwind(AssertUnwindSafe(|| work(&log, &goes_on))).is_err() {
                log(&format!(
                    "{what} has panicked and is over; frames pass on, and a new start brings it back"
                ));
            }
        })?;
        Ok(ending)
    }
}

/// Tells a companion to end when it is dropped.
pub(crate) struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
