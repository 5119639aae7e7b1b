//! Standard output and error of a switch: no thread of it waits for their readers.
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sandbox;

/// Bytes of one write: as much as goes into a pipe as a whole.
const WRITE_BYTES: usize = 4096;

/// At the end, how long a reader may take for one write.
const READER_TIMEOUT: Duration = Duration::from_secs(1);

/// Texts that a thread of their own writes to a descriptor. What does not fit is dropped and counted.
#[derive(Clone)]
pub struct NonBlockingWriter {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    texts: VecDeque<String>,
    bytes: usize,
    max_bytes: usize,
    /// Texts that were dropped since the last one that was accepted.
    dropped: u64,
    /// Being written.
    busy: bool,
    /// Writes so far.
    writes: u64,
    /// The first error. The end of the reader (`| head`) does not count as an error.
    failed: Option<io::Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes each text, without end.
    fn serve(&self, mut into: impl Write) {
        loop {
            let text = {
                let idle = |queue: &mut Queue| queue.texts.is_empty();
                let mut queue =
                    self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
                let text = queue.texts.pop_front().unwrap_or_default();
                queue.bytes -= text.len();
                queue.busy = true;
                text
            };
            for part in text.as_bytes().chunks(WRITE_BYTES) {
                let written = into.write_all(part).and_then(|()| into.flush());
                let mut queue = self.lock();
                queue.writes += 1;
                self.changed.notify_all();
                if let Err(error) = written {
                    if error.kind() != io::ErrorKind::BrokenPipe {
                        queue.failed.get_or_insert(error);
                    }
                    break;
                }
            }
            self.lock().busy = false;
            self.changed.notify_all();
        }
    }
}

/// A handle without a lock. The standard library's handles stay locked while a write blocks, and a panic in another
/// thread would then block too.
fn unlocked(fd: BorrowedFd<'_>) -> io::Result<File> {
    fd.try_clone_to_owned().map(File::from)
}

impl NonBlockingWriter {
    /// A writer to the standard error. 64 KiB may wait: some hundred lines.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated, or the thread cannot be started.
    pub fn stderr() -> io::Result<Self> {
        Self::new("log", 64 << 10, unlocked(io::stderr().as_fd())?)
    }

    /// A writer to the standard output. 4 MiB may wait: some snapshots of many ports.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated, or the thread cannot be started.
    pub fn stdout() -> io::Result<Self> {
        Self::new("output", 4 << 20, unlocked(io::stdout().as_fd())?)
    }

    /// A writer to a file. 4 MiB may wait.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn file(file: File) -> io::Result<Self> {
        Self::new("output", 4 << 20, file)
    }

    fn new(name: &str, max_bytes: usize, into: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.lock().max_bytes = max_bytes;
        let writer = Arc::clone(&shared);
        // The thread ends with the process: a write that blocks cannot be woken.
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            sandbox::confine_writer();
            writer.serve(into);
        })?;
        Ok(NonBlockingWriter { shared })
    }

    /// Queues a text, or drops it if the queue is full; never waits. `text` is given the number of texts that were
    /// dropped before it.
    pub fn put(&self, text: impl FnOnce(u64) -> String) {
        let mut queue = self.shared.lock();
        // An empty queue has room for one text of any length.
        if queue.bytes >= queue.max_bytes {
            queue.dropped += 1;
            return;
        }
        let text = text(std::mem::take(&mut queue.dropped));
        queue.bytes += text.len();
        queue.texts.push_back(text);
        self.shared.changed.notify_all();
    }

    /// Queues a line. If earlier lines were dropped, the line states their number.
    pub fn line(&self, line: &str) {
        self.put(|dropped| match dropped {
            0 => format!("{line}\n"),
            _ => format!("tautline: {dropped} lines dropped: their reader is too slow\n{line}\n"),
        });
    }

    /// Waits until all is written, while the reader reads at least 4 KiB a second.
    ///
    /// # Errors
    /// The first error of a write, such as a full disk. A reader that went away or does not read is no error.
    pub fn finish(&self) -> io::Result<()> {
        let mut queue = self.shared.lock();
        let (mut writes, mut since) = (queue.writes, Instant::now());
        while (queue.busy || !queue.texts.is_empty()) && since.elapsed() < READER_TIMEOUT {
            queue = self
                .shared
                .changed
                .wait_timeout(queue, READER_TIMEOUT / 10)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if queue.writes != writes {
                (writes, since) = (queue.writes, Instant::now());
            }
        }
        queue.failed.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn nobody_waits_for_a_pipe_that_nobody_reads_and_drops_are_told() {
        let (reader, writer) = io::pipe().unwrap();
        let writer = NonBlockingWriter::new("test", 1 << 10, writer).unwrap();
        let since = Instant::now();
        // More than a pipe holds.
        let long = "x".repeat(1 << 20);
        writer.line(&long);
        for number in 0..100_000 {
            writer.line(&format!("line {number}"));
        }
        assert!(writer.finish().is_ok());
        assert!(
            since.elapsed() > READER_TIMEOUT && since.elapsed() < READER_TIMEOUT * 20,
            "{:?}",
            since.elapsed()
        );
        let dropped = writer.shared.lock().dropped;
        assert!(dropped > 0);
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let mut told = 0;
        let mut seen = 0;
        // The reader reads again: there is room, and the next line states the missing lines.
        while told < dropped {
            let line = lines.next().unwrap();
            match line.strip_prefix("tautline: ").and_then(|line| line.split_whitespace().next()) {
                Some(count) => told += count.parse::<u64>().unwrap(),
                None => seen += 1,
            }
            writer.line("more");
        }
        println!("{told} of 100000 lines dropped, {seen} written");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let writer = NonBlockingWriter::new("test", 1 << 10, writer).unwrap();
        writer.line("unheard");
        assert!(writer.finish().is_ok());
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let writer = NonBlockingWriter::new("test", 1 << 10, full).unwrap();
        writer.line("too much");
        assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
