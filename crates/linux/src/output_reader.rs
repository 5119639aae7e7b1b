//! The output of a process through a pipe, which a thread reads as it arrives.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Reads one pipe until it is closed.
#[derive(Clone, Debug, Default)]
pub struct OutputReader(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    printed: Mutex<Printed>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Printed {
    text: String,
    /// The first bytes of a character that is not complete yet.
    pending: Vec<u8>,
    closed: bool,
}

/// Why the expected text did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPrinted {
    /// The pipe was closed, as at the end of a process.
    #[error("its output has ended")]
    Closed,
    /// The text did not come in time.
    #[error("not within {0:?}")]
    TimedOut(Duration),
}

impl OutputReader {
    /// Begins to read.
    pub fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let reader = OutputReader::default();
        let shared = Arc::clone(&reader.0);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let count = match pipe.read(&mut buffer) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    result => result.unwrap_or(0),
                };
                let mut printed = shared.lock();
                printed.add(&buffer[..count]);
                shared.more.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        reader
    }

    /// The text that has come so far.
    pub fn text(&self) -> String {
        self.0.lock().text.clone()
    }

    /// The length in bytes of the text so far, which is the position of the next text.
    pub fn len(&self) -> usize {
        self.0.lock().text.len()
    }

    /// Whether no text has come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the pipe is closed, so that no more text comes.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Waits until `find` returns a value for the text that has come so far.
    ///
    /// # Errors
    /// `find` returned `None` for all text until the pipe was closed ([`NotPrinted::Closed`]) or `limit` passed
    /// ([`NotPrinted::TimedOut`]).
    pub fn wait_for<T>(
        &self,
        limit: Duration,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, NotPrinted> {
        let deadline = Instant::now() + limit;
        let mut printed = self.0.lock();
        loop {
            if let Some(found) = find(&printed.text) {
                return Ok(found);
            }
            if printed.closed {
                return Err(NotPrinted::Closed);
            }
            let left = deadline.checked_duration_since(Instant::now()).ok_or(NotPrinted::TimedOut(limit))?;
            printed = self.0.more.wait_timeout(printed, left).unwrap_or_else(|error| error.into_inner()).0;
        }
    }

    /// Waits for the first whole line from byte `position` on, and moves `position` past that line.
    ///
    /// # Errors
    /// The pipe was closed, or `limit` passed, before a whole line came.
    pub fn next_line(&self, position: &mut usize, limit: Duration) -> Result<String, NotPrinted> {
        let line = self.wait_for(limit, |text| {
            let rest = &text[*position..];
            rest.find('\n').map(|end| rest[..end].to_owned())
        })?;
        *position += line.len() + 1;
        Ok(line)
    }

    /// Waits until the pipe is closed, and returns all text that came.
    ///
    /// # Errors
    /// The pipe is still open after `limit`.
    pub fn until_closed(&self, limit: Duration) -> Result<String, NotPrinted> {
        match self.wait_for(limit, |_| None::<()>) {
            Err(NotPrinted::TimedOut(limit)) => Err(NotPrinted::TimedOut(limit)),
            _ => Ok(self.text()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Printed {
    /// Adds the bytes that were read; no bytes mean the end of the pipe. Bytes that are not UTF-8 are replaced.
    fn add(&mut self, bytes: &[u8]) {
        self.closed = bytes.is_empty();
        self.pending.extend(bytes);
        while !self.pending.is_empty() {
            let error = match std::str::from_utf8(&self.pending) {
                Ok(text) => {
                    self.text.push_str(text);
                    self.pending.clear();
                    return;
                }
                Err(error) => error,
            };
            let valid = error.valid_up_to();
            self.text.push_str(&String::from_utf8_lossy(&self.pending[..valid]));
            let invalid = match error.error_len() {
                Some(length) => length,
                None if self.closed => self.pending.len() - valid,
                None => {
                    self.pending.drain(..valid);
                    return;
                }
            };
            self.text.push(char::REPLACEMENT_CHARACTER);
            self.pending.drain(..valid + invalid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn lines_are_had_one_by_one_and_the_end_is_told() {
        let (pipe, mut end) = std::io::pipe().unwrap();
        let reader = OutputReader::start(pipe);
        end.write_all(b"one\ntwo\nth").unwrap();
        let mut position = 0;
        assert_eq!(reader.next_line(&mut position, SOON).unwrap(), "one");
        assert_eq!(reader.next_line(&mut position, SOON).unwrap(), "two");
        let short = Duration::from_millis(5);
        assert_eq!(reader.next_line(&mut position, short), Err(NotPrinted::TimedOut(short)));
        assert!(!reader.is_closed());
        end.write_all(b"ree\n").unwrap();
        assert_eq!(reader.next_line(&mut position, SOON).unwrap(), "three");
        drop(end);
        assert_eq!(reader.next_line(&mut position, SOON), Err(NotPrinted::Closed));
        assert_eq!(reader.until_closed(SOON).unwrap(), "one\ntwo\nthree\n");
        assert_eq!(reader.len(), position);
    }

    #[test]
    fn a_character_may_come_in_parts_and_what_is_none_is_replaced() {
        let mut printed = Printed::default();
        for byte in "aä€".as_bytes() {
            printed.add(&[*byte]);
        }
        assert_eq!(printed.text, "aä€");
        printed.add(b"\xffb\xe2\x82");
        assert_eq!(printed.text, "aä€\u{fffd}b");
        printed.add(b"");
        assert_eq!(printed.text, "aä€\u{fffd}b\u{fffd}");
        assert!(printed.closed);
    }
}
