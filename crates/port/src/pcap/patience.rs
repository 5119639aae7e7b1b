//! File systems that may not answer.
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// The time that the thread which serves all ports waits for a file system.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs a request to a file system on a thread of its own. A file system that hangs blocks only that thread, which
/// keeps the files that it opened.
pub(super) fn ask<T: Send + 'static>(
    question: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = sync_channel(1);
    thread::Builder::new().name("pcap".to_owned()).spawn(move || answer.send(question()))?;
    let silent = |_| Err(io::Error::other("its file system has not answered for a second"));
    answered.recv_timeout(PATIENCE).unwrap_or_else(silent)
}
