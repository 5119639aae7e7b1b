//! The guest's side: an agent in the guest records too, and is reached through a serial port.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use environment::Channel;
use kvm::events::{Kind, Rate, Trace};
use kvm::worst::{Arrival, Latency, Offsets, Span};
use measure::Failure;
use workload::protocol::{Recording, Reply, Request};

/// An agent that has not answered by then is not there.
const LIMIT: Duration = Duration::from_secs(20);
/// The time that the recorder gets to end.
const GRACE: Duration = Duration::from_secs(1);
/// The most lines that are skipped: answers to an earlier client, and a greeting.
const MOST_STRAY: usize = 4;

/// The guest's recorder, and its clock.
pub struct Inside {
    channel: Channel,
    offsets: Offsets,
    rate: Rate,
}

impl Inside {
    /// Starts the recorder of the agent behind a socket.
    pub fn start(socket: &Path, pid: u32, rate: Rate) -> Result<Self, Failure> {
        let offsets = Offsets::of(pid)?;
        let failed = |error: io::Error| {
            let tried = format!("connecting to the guest's agent at {}", socket.display());
            Failure::new(tried, error, "name QEMU's -chardev socket")
        };
        let stream = UnixStream::connect(socket).map_err(failed)?;
        let other = stream.try_clone().map_err(failed)?;
        let channel = Channel::new(stream.into(), other.into()).map_err(failed)?;
        let mut inside = Inside { channel, offsets, rate };
        let has_started = |reply| matches!(reply, Reply::Recorder { runs: true }).then_some(());
        inside.ask(Recording::Start, LIMIT, has_started)?;
        Ok(inside)
    }

    /// Sends a request and waits for its answer. Other lines are answers to an earlier client.
    fn ask<T>(
        &mut self,
        recording: Recording,
        limit: Duration,
        answer: impl Fn(Reply) -> Option<T>,
    ) -> Result<T, Failure> {
        self.channel.send(Request::Record(recording).to_line().trim_end(), limit).map_err(unanswered)?;
        for _ in 0..MOST_STRAY {
            match Reply::parse(&self.channel.receive(limit).map_err(unanswered)?).map_err(unanswered)? {
                greeting @ Reply::Ready { .. } => drop(greeting.greeting().map_err(unanswered)?),
                Reply::Failed(failure) => return Err(failure),
                reply => {
                    if let Some(answer) = answer(reply) {
                        return Ok(answer);
                    }
                }
            }
        }
        Err(unanswered("it does not answer what it was asked"))
    }

    /// Returns the guest's threads that reached user space since the last call, on the host's clock, and the
    /// number of lost events.
    pub fn news(&mut self) -> Result<(Vec<Arrival>, u64), Failure> {
        let news = self.ask(Recording::News, LIMIT, |reply| match reply {
            Reply::News(news) => Some(news),
            _ => None,
        })?;
        let on_host = |arrival: Arrival| {
            let time = |tick| self.offsets.of_host(arrival.cpu, tick, self.rate);
            Some(Arrival { handled: time(arrival.handled)?, arrived: time(arrival.arrived)?, ..arrival })
        };
        Ok((news.arrivals.into_iter().filter_map(on_host).collect(), news.lost))
    }

    /// The guest's events during some latencies and `margin_ns` before and after them, on the host's clock.
    pub fn around(&mut self, latencies: &[Latency], margin_ns: u64) -> Result<Trace, Failure> {
        let on_guest = |latency: &Latency| {
            let span = Span::around(latency, margin_ns);
            let tick = |time| self.offsets.of_guest(latency.vcpu, time, self.rate);
            Some(Span { from: tick(span.from)?, until: tick(span.until)? })
        };
        let spans = latencies.iter().filter_map(on_guest).collect();
        let mut trace = self.ask(Recording::Tell(spans), LIMIT, |reply| match reply {
            Reply::Recorded(trace) => Some(*trace),
            _ => None,
        })?;
        self.offsets.move_to_host(&mut trace.events, self.rate);
        trace.names.values_mut().for_each(make_printable);
        for event in &mut trace.events {
            if let Kind::IrqEntry { name } | Kind::SoftirqEntry { action: name } = &mut event.kind {
                make_printable(name);
            }
        }
        Ok(trace)
    }
}

/// An agent that gives no answer.
fn unanswered(answer: impl ToString) -> Failure {
    let remedy = "run `tautline agent` at its serial port, as root";
    Failure::new("asking the guest's agent", answer, remedy)
}

/// Names from a guest are printed on a terminal: removes control characters, and cuts the name to the kernel's length.
fn make_printable(name: &mut String) {
    *name = name.chars().filter(|one| !one.is_control()).take(64).collect();
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The agent may be gone, or its guest; then its recorder is as well.
        let has_ended = |reply| matches!(reply, Reply::Recorder { runs: false }).then_some(());
        let _ = self.ask(Recording::Stop, GRACE, has_ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_names_do_not_reach_the_terminal_as_commands() {
        let mut name = format!("\u{1b}[2Jrm\r\n{}", "x".repeat(100));
        make_printable(&mut name);
        assert!(name.starts_with("[2Jrmx") && name.len() == 64, "{name}");
    }
}
