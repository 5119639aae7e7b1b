//! A flight recorder: buffers that keep the latest events, and are read where something has happened.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use measure::Failure;

use super::record::{prepare, write};
use super::{Pid, Rate, Selection, Trace};

/// The buffers of all CPUs, in each of the two instances.
const ALL_KIB: u32 = 32 << 10;
const LEAST_KIB: u32 = 64;

/// Two instances of tracefs by turns: while one is frozen and read the other records, so that what happens meanwhile
/// is not missed. The kernel overwrites the oldest events, so that their memory is bounded however long it goes on.
pub struct FlightRecorder {
    recording: PathBuf,
    resting: PathBuf,
    rate: Rate,
}

impl FlightRecorder {
    /// Starts in two instances, which the caller has made and removes.
    ///
    /// # Errors
    /// The kernel refuses an event that there must be.
    pub fn start(
        instances: [&Path; 2],
        selection: &Selection,
        threads: &[Pid],
        rate: Rate,
    ) -> Result<Self, Failure> {
        let [recording, resting] = instances;
        let cpus = per_cpu(recording).count().max(1) as u32;
        let selection = &selection.at_most_kib((ALL_KIB / cpus).max(LEAST_KIB));
        write(resting, "tracing_on", "0")?;
        for instance in instances {
            prepare(instance, selection, threads)?;
        }
        write(recording, "tracing_on", "1")?;
        Ok(Self { recording: recording.into(), resting: resting.into(), rate })
    }

    /// What was recorded last. Recording goes on meanwhile.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn freeze(&mut self) -> Result<Trace, Failure> {
        write(&self.resting, "tracing_on", "1")?;
        write(&self.recording, "tracing_on", "0")?;
        std::mem::swap(&mut self.recording, &mut self.resting);
        let path = self.resting.join("trace");
        let failed = |error| Failure::new(format!("reading {}", path.display()), error, "run as root");
        let file = File::open(&path).map_err(failed)?;
        let mut trace = Trace::read(BufReader::new(file), self.rate.ticks_per_us()).map_err(failed)?;
        let overwritten = overwritten(&self.resting);
        // Opening it to be written empties it.
        fs::write(&path, "").map_err(failed)?;
        keep_whole(&mut trace, &overwritten);
        Ok(trace)
    }
}

/// The CPUs whose oldest events are gone.
fn overwritten(instance: &Path) -> Vec<u32> {
    let is_overwritten = |folder: &Path| {
        let stats = fs::read_to_string(folder.join("stats")).unwrap_or_default();
        let overrun = stats.lines().find_map(|line| line.strip_prefix("overrun: "));
        overrun.is_some_and(|count| count.trim() != "0")
    };
    per_cpu(instance).filter(|(_, folder)| is_overwritten(folder)).map(|(cpu, _)| cpu).collect()
}

/// The machine's CPUs, with the folders that an instance has for them.
fn per_cpu(instance: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(instance.join("per_cpu")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        Some((entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?, entry.path()))
    })
}

/// Drops what is older than the oldest event of a CPU that has lost older ones: before it the trace has gaps.
fn keep_whole(trace: &mut Trace, overwritten: &[u32]) {
    let oldest = |cpu: &u32| trace.events.iter().find(|event| event.cpu == *cpu).map(|event| event.time);
    if let Some(whole_from) = overwritten.iter().filter_map(oldest).max() {
        trace.events.retain(|event| event.time >= whole_from);
    }
    // What was overwritten is not lost: it is older than what is here.
    trace.lost = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cpu_has_overwritten_is_in_no_trace() {
        let line =
            |cpu: u32, time: u32| format!("  make-7  [00{cpu}] d..1.  {time}: irq_handler_exit: irq=1\n");
        let text: String =
            [(0, 10), (1, 20), (1, 30), (0, 40), (2, 50)].map(|(cpu, time)| line(cpu, time)).concat();
        let times = |overwritten: &[u32]| {
            let mut trace = Trace::parse(&text, 1000.0);
            keep_whole(&mut trace, overwritten);
            trace.events.iter().map(|event| event.time).collect::<Vec<_>>()
        };
        assert_eq!(times(&[]), [10, 20, 30, 40, 50]);
        assert_eq!(times(&[1]), [20, 30, 40, 50]);
        assert_eq!(times(&[0, 1, 3]), [20, 30, 40, 50], "a CPU that overwrote all has none left");
    }
}
