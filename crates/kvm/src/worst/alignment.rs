//! A guest's clock compared with the host's: KVM's offset of the guest's time-stamp counter, and the bound of its
//! error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use measure::Failure;
use serde::{Deserialize, Serialize};

use crate::events::{Event, Kind, Pid, Rate, Trace};

/// The folder in which KVM shows the offset (Documentation/virt/kvm: debugfs, `vcpuN/tsc-offset`).
const DEBUGFS: &str = "/sys/kernel/debug/kvm";

/// The offsets that a guest's virtual CPUs add to the host's time-stamp counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets(BTreeMap<u32, i64>);

impl Offsets {
    /// The offsets of the guest that a process runs.
    ///
    /// # Errors
    /// KVM's files of debugfs cannot be read, the guest's counter runs at another rate than the host's, or the process
    /// runs several guests.
    pub fn of(pid: Pid) -> Result<Self, Failure> {
        Self::below(Path::new(DEBUGFS), pid)
    }

    fn below(debugfs: &Path, pid: Pid) -> Result<Self, Failure> {
        let tried = "reading the offset of the guest's time-stamp counter";
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let own = format!("{pid}-");
        let guests = entries(debugfs).filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
        let mut found = BTreeMap::new();
        for vcpu in guests.flat_map(|guest| entries(&guest.path()).collect::<Vec<_>>()) {
            let name = vcpu.file_name();
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix("vcpu")?.parse().ok()) else {
                continue;
            };
            let number_in = |file: &str| -> Option<i64> {
                fs::read_to_string(vcpu.path().join(file)).ok()?.trim().parse().ok()
            };
            let Some(offset) = number_in("tsc-offset") else { continue };
            if let (Some(ratio), Some(bits)) =
                (number_in("tsc-scaling-ratio"), number_in("tsc-scaling-ratio-frac-bits"))
                && (0..63).contains(&bits)
                && ratio != 1 << bits
            {
                let remedy = "run it on a host with the guest's rate";
                return Err(Failure::new(tried, "it runs at another rate than the host's", remedy));
            }
            if found.insert(number, offset).is_some() {
                let answer = format!("process {pid} runs several guests with a vCPU {number}");
                return Err(Failure::new(tried, answer, "name a process that runs one guest"));
            }
        }
        match found.is_empty() {
            true => Err(Failure::new(
                tried,
                format!("{} has none of process {pid}", debugfs.display()),
                "run as root; mount -t debugfs debugfs /sys/kernel/debug",
            )),
            false => Ok(Self(found)),
        }
    }

    /// Converts a tick of the guest's counter on a virtual CPU to a time of the host; `None` if that CPU is unknown.
    pub fn of_host(&self, vcpu: u32, tick: u64, rate: Rate) -> Option<u64> {
        let host = (tick as i64).wrapping_sub(*self.0.get(&vcpu)?) as u64;
        Some((host as f64 * 1e3 / rate.ticks_per_us().max(1e-3)) as u64)
    }

    /// Converts a time of the host to a tick of the guest's counter on a virtual CPU; `None` if that CPU is unknown.
    pub fn of_guest(&self, vcpu: u32, time: u64, rate: Rate) -> Option<u64> {
        let host = (time as f64 * rate.ticks_per_us() / 1e3) as u64;
        Some(host.wrapping_add_signed(*self.0.get(&vcpu)?))
    }

    /// Converts the times of a guest's events to the host's clock.
    pub fn move_to_host(&self, events: &mut Vec<Event>, rate: Rate) {
        events.retain_mut(|event| match self.of_host(event.cpu, event.time, rate) {
            Some(time) => {
                event.time = time;
                true
            }
            None => false,
        });
        events.sort_by_key(|event| event.time);
    }
}

/// How well the clocks of two traces fit. A guest can do something only between an entry and the following exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fit {
    /// The number of the guest's events that were checked.
    pub events: u64,
    /// The most by which the guest's clock may be ahead, ns. If it were more ahead, an event would come after its
    /// exit. Negative if an event does come after its exit.
    pub ahead_ns: i64,
    /// The most by which the guest's clock may be behind, ns. If it were more behind, an event would come before its
    /// entry.
    pub behind_ns: i64,
}

impl Fit {
    /// The fit of a host's trace and its guest's, whose times are converted to the host's clock already. `vcpus` are
    /// the threads with the CPUs' numbers. `None` if no event can be judged.
    pub fn of(host: &Trace, guest: &Trace, vcpus: &BTreeMap<Pid, u32>) -> Option<Self> {
        let mut fit = Self { events: 0, ahead_ns: i64::MAX, behind_ns: i64::MAX };
        for (pid, vcpu) in vcpus {
            let windows = windows(host, *pid);
            let (Some((first, _)), Some((_, last))) = (windows.first(), windows.last()) else { continue };
            // Before and after that the guest may run as well: its entry or its exit is not in the trace.
            let is_covered = |time: u64| (*first..=*last).contains(&time);
            let events = guest.events.iter().filter(|event| event.cpu == *vcpu && is_covered(event.time));
            for time in events.map(|event| event.time) {
                let next = windows.partition_point(|(entry, _)| *entry <= time);
                let near = [next.checked_sub(1), Some(next)].into_iter().flatten();
                // An event outside of all windows belongs to the nearer one.
                let outside =
                    |(entry, exit): (u64, u64)| entry.saturating_sub(time) + time.saturating_sub(exit);
                let Some((entry, exit)) =
                    near.filter_map(|at| windows.get(at).copied()).min_by_key(|window| outside(*window))
                else {
                    continue;
                };
                // Far outside is what the host's trace does not reach.
                if outside((entry, exit)) > FAR {
                    continue;
                }
                fit.events += 1;
                fit.ahead_ns = fit.ahead_ns.min(exit as i64 - time as i64);
                fit.behind_ns = fit.behind_ns.min(time as i64 - entry as i64);
            }
        }
        (fit.events > 0).then_some(fit)
    }

    /// The fit from two checks of the same clocks.
    pub fn and(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_add(other.events),
            ahead_ns: self.ahead_ns.min(other.ahead_ns),
            behind_ns: self.behind_ns.min(other.behind_ns),
        }
    }

    /// The most by which an event comes before its entry, ns: 0 if causes come before effects.
    pub fn early_ns(&self) -> u64 {
        self.behind_ns.min(0).unsigned_abs()
    }

    /// The bound of the error of the guest's times, ns, whatever was assumed about its clock: a larger shift would
    /// put an event where the guest does not run.
    pub fn error_ns(&self) -> u64 {
        self.ahead_ns.unsigned_abs().max(self.behind_ns.unsigned_abs())
    }
}

/// An event at this distance from all entries and exits, in ns, belongs to none of them.
const FAR: u64 = 1_000_000;

/// Each entry with the exit after it.
fn windows(host: &Trace, pid: Pid) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut entered = None;
    for event in host.events.iter().filter(|event| event.pid == pid) {
        match event.kind {
            Kind::Entry { .. } => entered = Some(event.time),
            Kind::Exit { .. } => found.extend(entered.take().map(|entry| (entry, event.time))),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Context;

    fn trace(events: &[(u64, Pid, Kind)]) -> Trace {
        let event = |(time, pid, kind): &(u64, Pid, Kind)| Event {
            time: *time,
            cpu: 0,
            pid: *pid,
            context: Context::Task,
            kind: kind.clone(),
        };
        Trace { events: events.iter().map(event).collect(), ..Trace::default() }
    }

    #[test]
    fn a_guest_does_nothing_where_it_does_not_run() {
        let exit = || Kind::Exit { vcpu: 0, reason: "hlt".into() };
        let mut host = Vec::new();
        for number in 0..20 {
            host.push((number * 1_000, 7, Kind::Entry { vcpu: 0 }));
            host.push((number * 1_000 + 200, 7, exit()));
        }
        let host = trace(&host);
        let guest = |shift: i64| {
            let at = |time: u64| time.saturating_add_signed(shift);
            trace(&[(at(5_030), 1, Kind::Timer), (at(6_100), 1, Kind::Timer), (at(9_150), 1, Kind::IrqExit)])
        };
        let vcpus = BTreeMap::from([(7, 0)]);
        let fit = Fit::of(&host, &guest(0), &vcpus).unwrap();
        assert_eq!((fit.events, fit.ahead_ns, fit.behind_ns, fit.error_ns()), (3, 50, 30, 50));
        // A clock that is 90 ns ahead puts an event 40 ns after its exit, and the bound holds.
        let fit = Fit::of(&host, &guest(90), &vcpus).unwrap();
        assert_eq!((fit.ahead_ns, fit.behind_ns), (-40, 120));
        assert!(fit.error_ns() >= 90);
        assert_eq!(Fit::of(&Trace::default(), &guest(0), &vcpus), None);
    }

    #[test]
    fn a_guest_that_runs_while_the_hosts_trace_ends_does_not_tell_its_clock() {
        let mut host = trace(&[]);
        let mut guest = trace(&[]);
        for number in 0..5 {
            let at = number * 10_000;
            let (entry, exit) = (Kind::Entry { vcpu: 0 }, Kind::Exit { vcpu: 0, reason: "hlt".into() });
            host.events.append(&mut trace(&[(at, 7, entry), (at + 900, 7, exit)]).events);
            guest.events.append(&mut trace(&[(at + 400, 1, Kind::Timer)]).events);
        }
        // The trace begins after the first entry, and ends before the last exit.
        host.events.remove(0);
        host.events.pop();
        let fit = Fit::of(&host, &guest, &BTreeMap::from([(7, 0)])).unwrap();
        assert_eq!((fit.events, fit.ahead_ns, fit.behind_ns), (3, 500, 400));
    }

    #[test]
    fn the_tighter_bounds_of_two_looks_hold() {
        let first = Fit { events: 3, ahead_ns: 50, behind_ns: 30 };
        let both = first.and(Fit { events: 4, ahead_ns: 20, behind_ns: 90 });
        assert_eq!(both, Fit { events: 7, ahead_ns: 20, behind_ns: 30 });
    }

    #[test]
    fn offsets_are_read_where_kvm_tells_them() {
        let debugfs = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = debugfs.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert!(Offsets::below(debugfs.path(), 7).is_err());
        write("7-11/vcpu0/tsc-offset", "-1000\n");
        write("7-11/vcpu1/tsc-offset", "18446744073709551616\n");
        write("77-11/vcpu1/tsc-offset", "-3\n");
        write("7-11/exits", "9\n");
        let offsets = Offsets::below(debugfs.path(), 7).unwrap();
        assert_eq!(offsets, Offsets([(0, -1000)].into()));
        let mut events = trace(&[(500, 1, Kind::Timer)]).events;
        offsets.move_to_host(&mut events, Rate::of_ns());
        assert_eq!(events[0].time, 1_500, "host's is the guest's without the offset");
        assert_eq!(offsets.of_guest(0, 1_500, Rate::of_ns()), Some(500));
        assert_eq!(offsets.of_guest(1, 1_500, Rate::of_ns()), None);
        write("7-12/vcpu0/tsc-offset", "-2000\n");
        let several = Offsets::below(debugfs.path(), 7).unwrap_err();
        assert!(several.to_string().contains("several guests"), "{several}");
        fs::remove_dir_all(debugfs.path().join("7-12")).unwrap();
        write("7-11/vcpu0/tsc-scaling-ratio", "5\n");
        write("7-11/vcpu0/tsc-scaling-ratio-frac-bits", "32\n");
        assert!(Offsets::below(debugfs.path(), 7).unwrap_err().to_string().contains("another rate"));
    }
}
