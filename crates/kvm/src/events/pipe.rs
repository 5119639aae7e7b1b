//! Reading of events while the kernel writes them.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use measure::Failure;

use super::record::{prepare, write};
use super::{Event, Pid, Rate, Selection, parse};

/// The most bytes of one reading, so that the reading thread gets to do other work.
const MOST_BYTES: usize = 1 << 20;

/// What came.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrived {
    /// An event, and the name of its thread.
    Event(Event, String),
    /// The number of events that were lost here. No conclusion may span the gap.
    Gap(u64),
}

/// The reading end of an instance's `trace_pipe`.
pub struct Pipe {
    path: PathBuf,
    file: File,
    /// The beginning of a line that is not complete yet.
    rest: Vec<u8>,
    rate: Rate,
}

impl Pipe {
    /// Starts reading in an instance, which the caller has made and removes.
    ///
    /// # Errors
    /// A file of the instance cannot be written or opened, or the kernel lacks an event that the selection requires.
    pub fn start(
        instance: &Path,
        selection: &Selection,
        threads: &[Pid],
        rate: Rate,
    ) -> Result<Self, Failure> {
        prepare(instance, selection, threads)?;
        write(instance, "tracing_on", "1")?;
        let path = instance.join("trace_pipe");
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let file =
            file.map_err(|error| Failure::new(format!("opening {}", path.display()), error, "run as root"))?;
        Ok(Self { path, file, rest: Vec::new(), rate })
    }

    /// Appends the events since the last call, in the kernel's order. Returns whether more may be waiting.
    ///
    /// # Errors
    /// The kernel refuses to read `trace_pipe`. An empty pipe is no error.
    pub fn read(&mut self, arrived: &mut Vec<Arrived>) -> Result<bool, Failure> {
        let mut buffer = [0; 16 << 10];
        let mut left = MOST_BYTES;
        while left > 0 {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    left = left.saturating_sub(bytes);
                    self.rest.extend_from_slice(&buffer[..bytes]);
                    lines(&mut self.rest, self.rate.ticks_per_us(), arrived);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let tried = format!("reading {}", self.path.display());
                    return Err(Failure::new(tried, error, "trace again"));
                }
            }
        }
        Ok(true)
    }
}

/// Takes the whole lines out of a text.
fn lines(text: &mut Vec<u8>, ticks_per_us: f64, arrived: &mut Vec<Arrived>) {
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else { return };
    let whole: Vec<u8> = text.drain(..=end).collect();
    for line in String::from_utf8_lossy(&whole).lines() {
        if let Some(lost) = parse::gap(line) {
            arrived.push(Arrived::Gap(lost));
        } else if let Some((event, name)) = parse::event(line, ticks_per_us) {
            arrived.push(Arrived::Event(event, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Kind;

    #[test]
    fn a_line_counts_once_however_it_is_cut() {
        let text = "       CPU 0/KVM-345     [001] d..1.  1234567: kvm_entry: vcpu 3, rip 0x1\nCPU:1 [LOST 23 EVENTS]\n";
        for cut in 0..text.len() {
            let (mut rest, mut arrived) = (Vec::new(), Vec::new());
            for part in [&text[..cut], &text[cut..]] {
                rest.extend_from_slice(part.as_bytes());
                lines(&mut rest, 1000.0, &mut arrived);
            }
            let [Arrived::Event(event, name), Arrived::Gap(23)] = &arrived[..] else {
                panic!("cut at {cut}: {arrived:?}")
            };
            assert_eq!((event.time, &event.kind), (1_234_567, &Kind::Entry { vcpu: 3 }));
            assert_eq!(name, "CPU 0/KVM");
            assert!(rest.is_empty());
        }
    }
}
