//! A flight recorder: buffers that keep the latest events, and are read after something has happened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use measure::Failure;

use super::record::{prepare, write};
use super::{Event, Pid, Rate, Selection, Trace};

/// The buffers of all CPUs, in each of the two instances.
const ALL_KIB: u32 = 32 << 10;
const LEAST_KIB: u32 = 64;

/// Two instances of tracefs in turns. While one is frozen and read, the other records, so that no event is missed.
/// The kernel overwrites the oldest events, so memory is limited however long it records.
pub struct FlightRecorder {
    recording: PathBuf,
    resting: PathBuf,
    rate: Rate,
    /// The trace of the last freeze. A follower reads events late, so the event that it reads now may be in this
    /// trace.
    before: Trace,
}

impl FlightRecorder {
    /// Starts recording in two instances, which the caller has made and removes.
    ///
    /// # Errors
    /// A file of an instance cannot be written, or the kernel lacks an event that the selection requires.
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
        Ok(Self { recording: recording.into(), resting: resting.into(), rate, before: Trace::default() })
    }

    /// Returns what was recorded since the freeze before the last one, unless it was overwritten. The other instance
    /// records from now on.
    ///
    /// # Errors
    /// An instance cannot be switched on or off, or its trace cannot be read or emptied.
    pub fn freeze(&mut self) -> Result<Trace, Failure> {
        write(&self.resting, "tracing_on", "1")?;
        write(&self.recording, "tracing_on", "0")?;
        std::mem::swap(&mut self.recording, &mut self.resting);
        let path = self.resting.join("trace");
        let failed = |error| Failure::new(format!("reading {}", path.display()), error, "run as root");
        let file = File::open(&path).map_err(failed)?;
        let mut trace = Trace::read(BufReader::new(file), self.rate.ticks_per_us()).map_err(failed)?;
        let overwritten = overwritten(&self.resting);
        // Opening the file for writing empties it.
        fs::write(&path, "").map_err(failed)?;
        keep_whole(&mut trace, &overwritten);
        let before = std::mem::replace(&mut self.before, trace.clone());
        if overwritten.is_empty() {
            put_before(&mut trace, before);
        }
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

/// Drops the events before the first event of any CPU whose older events were overwritten: before that event the trace
/// has gaps.
fn keep_whole(trace: &mut Trace, overwritten: &[u32]) {
    let oldest = |cpu: &u32| trace.events.iter().find(|event| event.cpu == *cpu).map(|event| event.time);
    if let Some(whole_from) = overwritten.iter().filter_map(oldest).max() {
        trace.events.retain(|event| event.time >= whole_from);
    }
    // Overwritten events are not lost: they are older than the remaining ones.
    trace.lost = 0;
}

/// Puts an earlier trace before this one. Both instances recorded for a moment: events that both have stay once. In the
/// earlier trace, each CPU has its own last event, because the CPUs notice the freeze at different times.
fn put_before(trace: &mut Trace, mut earlier: Trace) {
    let until: BTreeMap<u32, u64> = earlier.events.iter().map(|event| (event.cpu, event.time)).collect();
    let is_later = |event: &Event| until.get(&event.cpu).is_none_or(|until| event.time > *until);
    earlier.events.extend(trace.events.drain(..).filter(is_later));
    earlier.events.sort_by_key(|event| event.time);
    trace.events = earlier.events;
    earlier.names.append(&mut trace.names);
    trace.names = earlier.names;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Kind;

    /// A file as tracefs has it, with as many interrupts.
    fn fill(instance: &Path, times: &[u64]) {
        let line = |time: &u64| format!("  make-7  [000] d..1.  {time}: irq_handler_exit: irq=1\n");
        fs::write(instance.join("trace"), times.iter().map(line).collect::<String>()).unwrap();
    }

    #[test]
    fn what_was_frozen_last_is_there_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        for instance in [&first, &second] {
            fs::create_dir_all(instance.join("per_cpu/cpu0")).unwrap();
            fs::write(instance.join("per_cpu/cpu0/stats"), "overrun: 0\n").unwrap();
        }
        let (recording, resting) = (first.clone(), second.clone());
        let mut flight = FlightRecorder { recording, resting, rate: Rate::of_ns(), before: Trace::default() };
        let mut frozen = || {
            let trace = flight.freeze().unwrap();
            assert!(trace.events.iter().all(|event| event.kind == Kind::IrqExit));
            trace.events.iter().map(|event| event.time).collect::<Vec<_>>()
        };
        fill(&first, &[1, 2, 3]);
        assert_eq!(frozen(), [1, 2, 3]);
        // The last of the first instance is the first of the second.
        fill(&second, &[3, 4, 5]);
        assert_eq!(frozen(), [1, 2, 3, 4, 5]);
        fill(&first, &[6]);
        assert_eq!(frozen(), [3, 4, 5, 6]);
        // Between what was overwritten and what came before it there is a gap.
        fill(&second, &[9]);
        fs::write(second.join("per_cpu/cpu0/stats"), "overrun: 1\n").unwrap();
        assert_eq!(frozen(), [9]);
    }

    /// Events of some CPUs.
    fn of_cpus(events: &[(u32, u64)]) -> Trace {
        let line = |(cpu, time): &(u32, u64)| {
            format!("  make-7  [00{cpu}] d..1.  {time}: irq_handler_exit: irq=1\n")
        };
        Trace::parse(&events.iter().map(line).collect::<String>(), 1000.0)
    }

    #[test]
    fn a_cpu_that_was_late_to_freeze_takes_no_event_of_another() {
        let earlier = of_cpus(&[(0, 10), (1, 11), (1, 50)]);
        let mut trace = of_cpus(&[(0, 20), (0, 30), (1, 50), (0, 60), (2, 70)]);
        put_before(&mut trace, earlier);
        let found: Vec<(u32, u64)> = trace.events.iter().map(|event| (event.cpu, event.time)).collect();
        assert_eq!(found, [(0, 10), (1, 11), (0, 20), (0, 30), (1, 50), (0, 60), (2, 70)]);
    }

    #[test]
    fn what_a_cpu_has_overwritten_is_in_no_trace() {
        let times = |overwritten: &[u32]| {
            let mut trace = of_cpus(&[(0, 10), (1, 20), (1, 30), (0, 40), (2, 50)]);
            keep_whole(&mut trace, overwritten);
            trace.events.iter().map(|event| event.time).collect::<Vec<_>>()
        };
        assert_eq!(times(&[]), [10, 20, 30, 40, 50]);
        assert_eq!(times(&[1]), [20, 30, 40, 50]);
        assert_eq!(times(&[0, 1, 3]), [20, 30, 40, 50], "a CPU that overwrote all has none left");
    }
}
