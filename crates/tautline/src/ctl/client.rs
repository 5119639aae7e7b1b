//! The other end of a switch's control socket.
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use linux::interrupt;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;

use crate::switch_command::protocol::{Answer, Call, Outcome, Request, VERSION};

/// A switch that answers at all does so within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks for an interrupt.
const TICK: Duration = Duration::from_millis(100);

pub struct Client {
    path: PathBuf,
    socket: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Client {
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        let what = || {
            format!("connecting to {}; is it what a running switch was given as --control?", path.display())
        };
        let socket = UnixStream::connect(path).with_context(what)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { path: path.to_owned(), socket: BufReader::new(socket), line: Vec::new() })
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, request: Request) -> anyhow::Result<Value> {
        self.send(request, None)?;
        self.answer(Some(PATIENCE), true)
    }

    pub fn send(&mut self, request: Request, file: Option<BorrowedFd<'_>>) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&Call { version: VERSION, request })?;
        line.push(b'\n');
        let what = || format!("asking the switch at {}", self.path.display());
        let mut socket = self.socket.get_ref();
        let Some(file) = file else { return socket.write_all(&line).with_context(what) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent =
            sendmsg(socket, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL).with_context(what)?;
        socket.write_all(&line[sent..]).with_context(what)
    }

    /// Waits for an answer: so long, or until the user interrupts, if that is heeded.
    pub fn answer(&mut self, limit: Option<Duration>, heeds: bool) -> anyhow::Result<Value> {
        let since = Instant::now();
        loop {
            match self.socket.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => break,
                Ok(_) => {
                    bail!("the switch at {} has closed the connection; see what it logs", self.path.display())
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(anyhow!(error).context("reading the switch's answer")),
            }
            if heeds && interrupt::is_set() {
                return Err(interrupt::Interrupted.into());
            }
            if limit.is_some_and(|limit| since.elapsed() > limit) {
                let seconds = PATIENCE.as_secs();
                bail!(
                    "the switch at {} has not answered for {seconds} s; is it stopped?",
                    self.path.display()
                );
            }
        }
        let line = std::mem::take(&mut self.line);
        let answer: Answer =
            serde_json::from_slice(&line).context("the switch's answer is not understood")?;
        if answer.version != VERSION {
            bail!(
                "the switch speaks version {}, this program {VERSION}; use the switch's own",
                answer.version
            );
        }
        match answer.outcome {
            Outcome::Ok(value) => Ok(value),
            Outcome::Error(why) => Err(anyhow!(why)),
        }
    }
}
