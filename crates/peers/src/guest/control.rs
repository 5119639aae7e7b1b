//! The host's end of the channel to the guest's first process (`init.sh`).

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::process::Output;

/// Sends commands, and passes each answer to the thread that waits for it.
pub struct Control {
    writer: Mutex<UnixStream>,
    next: AtomicU64,
    answers: Arc<Answers>,
}

#[derive(Default)]
struct Answers {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    ready: bool,
    ended: bool,
    outputs: HashMap<u64, Output>,
}

/// The reason why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Silence {
    /// The guest has ended.
    Ended,
    /// No answer came within the limit.
    TimedOut,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<T>(&self, limit: Duration, found: impl Fn(&mut State) -> Option<T>) -> Result<T, Silence> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            if let Some(value) = found(&mut state) {
                return Ok(value);
            }
            if state.ended {
                return Err(Silence::Ended);
            }
            let left = deadline.checked_duration_since(Instant::now()).ok_or(Silence::TimedOut)?;
            state = self.more.wait_timeout(state, left).unwrap_or_else(|p| p.into_inner()).0;
        }
    }
}

impl Control {
    /// A channel over a connected socket. A thread reads the guest's answers until the socket closes.
    ///
    /// # Errors
    /// The socket's descriptor cannot be duplicated.
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        let answers = Arc::new(Answers::default());
        let reader = BufReader::new(stream.try_clone()?);
        let theirs = answers.clone();
        std::thread::spawn(move || {
            let _ = listen(reader, &theirs);
            theirs.lock().ended = true;
            theirs.more.notify_all();
        });
        Ok(Self { writer: Mutex::new(stream), next: AtomicU64::new(0), answers })
    }

    /// Waits until the guest accepts commands.
    ///
    /// # Errors
    /// The guest closed the channel, sent no valid answer, or was not ready within the limit.
    pub fn ready(&self, limit: Duration) -> Result<(), Silence> {
        self.answers.wait(limit, |state| state.ready.then_some(()))
    }

    /// Sends a command, which the guest kills after the limit. Returns the command's number.
    ///
    /// # Errors
    /// The guest has closed the channel.
    pub fn send(&self, command: &str, limit: Duration) -> std::io::Result<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let seconds = limit.as_secs_f64().ceil().max(1.0);
        let line = format!("{id} {seconds} {}\n", base64(command.as_bytes()));
        self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).write_all(line.as_bytes())?;
        Ok(id)
    }

    /// Waits for the output of the command with this number.
    ///
    /// # Errors
    /// The guest closed the channel, sent no valid answer, or did not answer within the limit.
    pub fn output(&self, id: u64, limit: Duration) -> Result<Output, Silence> {
        self.answers.wait(limit, |state| state.outputs.remove(&id))
    }
}

fn listen(mut reader: BufReader<UnixStream>, answers: &Answers) -> std::io::Result<()> {
    let wrong = || std::io::Error::other("not an answer");
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim() == "ready" {
            answers.lock().ready = true;
            answers.more.notify_all();
            continue;
        }
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let mut number = || numbers.next().and_then(Result::ok).ok_or_else(wrong);
        let (id, status, stdout, stderr) = (number()?, number()?, number()?, number()?);
        let mut text = |size: u64| -> std::io::Result<String> {
            let mut bytes = Vec::new();
            (&mut reader).take(size).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let output = Output { status: status as i32, stdout: text(stdout)?, stderr: text(stderr)? };
        answers.lock().outputs.insert(id, output);
        answers.more.notify_all();
    }
}

/// RFC 4648, section 4: a command of any bytes as one word.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let value = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for place in 0..4 {
            let digit = DIGITS[(value >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { digit as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_as_in_the_rfc() {
        // RFC 4648, section 10.
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(super::base64(plain.as_bytes()), encoded);
        }
    }
}
