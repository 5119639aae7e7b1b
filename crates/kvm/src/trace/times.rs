//! The results by reason and by virtual CPU.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::format::Reasons;
use super::histogram::{Histograms, Row};
use super::threads::Threads;

/// The kernel's sums.
#[derive(Debug, Default)]
pub struct Sums {
    /// `kvm_exit` by thread, virtual CPU and reason.
    pub exits: Histograms,
    pub guest: Histograms,
    pub outside: Histograms,
    pub user: Histograms,
    pub halted: Histograms,
    pub injections: Option<Histograms>,
    pub ioeventfds: Option<Histograms>,
    pub irqfds: Option<Histograms>,
}

/// The exits of a virtual CPU for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The virtual CPU's number.
    pub vcpu: u64,
    /// The reason's name, or its number if the kernel has no name for it.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// The time from exit to the next entry, without halts, ns.
    pub time_ns: u64,
    /// The part of this time in user space, in ns.
    pub user_ns: u64,
    /// The additional time in which the virtual CPU was halted, ns.
    pub halted_ns: u64,
    /// Pairs of a length in ns and a count: exits that took at most this long, including halts, and more than half of
    /// it. The pair with the shortest length is first.
    #[serde(default)]
    pub lengths: Vec<(u64, u64)>,
}

impl Reason {
    /// The longest time of this share of the exits, ns, rounded up to a power of two.
    pub fn at_most_ns(&self, share: f64) -> Option<u64> {
        let whole: u64 = self.lengths.iter().map(|(_, count)| count).sum();
        let wanted = (whole as f64 * share).ceil() as u64;
        let mut seen = 0;
        let long_enough = |(_, count): &&(u64, u64)| {
            seen += count;
            seen >= wanted
        };
        self.lengths.iter().find(long_enough).map(|(at_most, _)| *at_most)
    }
}

/// The time of a virtual CPU by use, and its counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vcpu {
    /// Its number.
    pub vcpu: u64,
    /// Its thread.
    pub thread: u64,
    /// Time in the guest, ns.
    pub guest_ns: u64,
    /// Time in the kernel between exit and entry, neither in user space nor halted, ns.
    pub kernel_ns: u64,
    /// Time in user space, ns.
    pub user_ns: u64,
    /// Time of halts that have ended, ns.
    pub halted_ns: u64,
    /// Time that it was runnable while another thread ran, ns; contained in the times above.
    pub waited_ns: u64,
    /// The part of its thread's CPU time that the kernel accounts as a guest's, ns; a multiple of a tick.
    #[serde(default)]
    pub accounted_guest_ns: u64,
    /// The rest of its thread's CPU time, as the kernel accounts it, ns.
    #[serde(default)]
    pub accounted_host_ns: u64,
    /// How often the virtual CPU was preempted.
    pub involuntary_switches: u64,
    /// The number of ended halts.
    pub wake_ups: u64,
    /// Injected interrupts; `None` if the kernel does not report them.
    pub injections: Option<u64>,
    /// Writes of the virtual CPU that signalled an ioeventfd; `None` if the kernel does not report them.
    pub ioeventfd_signals: Option<u64>,
}

/// All results of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The reasons by the time that they took, the longest first.
    pub reasons: Vec<Reason>,
    /// By number.
    pub vcpus: Vec<Vcpu>,
    /// Signals of irqfds by the process's own threads; `None` if the kernel does not report them.
    pub irqfd_signals: Option<u64>,
    /// Events of any guest of this machine for which a histogram had no room.
    pub lost: u64,
}

impl Times {
    /// The difference from an earlier reading of the same trace.
    pub fn since(&self, before: &Self) -> Self {
        let mut found = self.clone();
        for reason in &mut found.reasons {
            let same = |known: &&Reason| known.vcpu == reason.vcpu && known.reason == reason.reason;
            let Some(known) = before.reasons.iter().find(same) else { continue };
            reason.count = reason.count.saturating_sub(known.count);
            reason.time_ns = reason.time_ns.saturating_sub(known.time_ns);
            reason.user_ns = reason.user_ns.saturating_sub(known.user_ns);
            reason.halted_ns = reason.halted_ns.saturating_sub(known.halted_ns);
            for (at_most, count) in &mut reason.lengths {
                let earlier = known.lengths.iter().find(|(known, _)| known == at_most);
                *count = count.saturating_sub(earlier.map_or(0, |(_, count)| *count));
            }
            reason.lengths.retain(|(_, count)| *count > 0);
        }
        found.reasons.retain(|reason| reason.count > 0);
        found.reasons.sort_by_key(|reason| std::cmp::Reverse((reason.time_ns, reason.count)));
        let less =
            |now: Option<u64>, known: Option<u64>| now.map(|now| now.saturating_sub(known.unwrap_or(0)));
        for vcpu in &mut found.vcpus {
            let Some(known) = before.vcpus.iter().find(|known| known.thread == vcpu.thread) else { continue };
            vcpu.guest_ns = vcpu.guest_ns.saturating_sub(known.guest_ns);
            vcpu.kernel_ns = vcpu.kernel_ns.saturating_sub(known.kernel_ns);
            vcpu.user_ns = vcpu.user_ns.saturating_sub(known.user_ns);
            vcpu.halted_ns = vcpu.halted_ns.saturating_sub(known.halted_ns);
            vcpu.waited_ns = vcpu.waited_ns.saturating_sub(known.waited_ns);
            vcpu.accounted_guest_ns = vcpu.accounted_guest_ns.saturating_sub(known.accounted_guest_ns);
            vcpu.accounted_host_ns = vcpu.accounted_host_ns.saturating_sub(known.accounted_host_ns);
            vcpu.involuntary_switches = vcpu.involuntary_switches.saturating_sub(known.involuntary_switches);
            vcpu.wake_ups = vcpu.wake_ups.saturating_sub(known.wake_ups);
            vcpu.injections = less(vcpu.injections, known.injections);
            vcpu.ioeventfd_signals = less(vcpu.ioeventfd_signals, known.ioeventfd_signals);
        }
        found.irqfd_signals = less(found.irqfd_signals, before.irqfd_signals);
        found.lost = found.lost.saturating_sub(before.lost);
        found
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a Row>, name: &str) -> u64 {
    rows.filter_map(|row| row.get(name)).sum()
}

impl Sums {
    /// The results for these threads.
    pub fn times(&self, reasons: &Reasons, threads: &Threads) -> Times {
        let mut times = Times { lost: self.lost(), ..Times::default() };
        let own = |row: &&Row| row.thread().is_some_and(|thread| threads.contains(thread));
        // Arm's event has no number of the virtual CPU: a VMM starts their threads in order.
        let running: BTreeSet<_> = self.exits.rows.iter().filter(own).filter_map(Row::thread).collect();
        for row in self.exits.rows.iter().filter(own) {
            let number = reasons.extension.number_in(row);
            let (Some(thread), Some(number), Some(count)) = (row.thread(), number, row.get("hitcount"))
            else {
                continue;
            };
            let place = || running.range(..thread).count() as u64;
            let vcpu = row.get("vcpu_id").unwrap_or_else(place);
            let of = |histograms: &Histograms| -> u64 {
                let same = |row: &&Row| row.thread() == Some(thread) && row.get("reason") == Some(number);
                sum(histograms.rows.iter().filter(same), "ns")
            };
            let mut lengths: Vec<_> = (self.outside.rows.iter())
                .filter(|row| row.thread() == Some(thread) && row.get("reason") == Some(number))
                .filter_map(|row| {
                    Some((1_u64.checked_shl(row.get("ns.log2")? as u32)?, row.get("hitcount")?))
                })
                .collect();
            lengths.sort_unstable();
            let reason = Reason {
                lengths,
                vcpu,
                reason: reasons.name(number),
                count,
                time_ns: of(&self.outside),
                user_ns: of(&self.user),
                halted_ns: 0,
            };
            if !times.vcpus.iter().any(|known| known.thread == thread) {
                times.vcpus.push(self.vcpu(vcpu, thread, threads));
            }
            add(&mut times.reasons, reason);
        }
        for vcpu in &mut times.vcpus {
            let mut left = vcpu.halted_ns;
            let own = times.reasons.iter_mut().filter(|reason| reason.vcpu == vcpu.vcpu);
            for reason in own.filter(|reason| Reasons::is_halt(&reason.reason)) {
                let halted = left.min(reason.time_ns.saturating_sub(reason.user_ns));
                (reason.halted_ns, reason.time_ns) = (halted, reason.time_ns - halted);
                left -= halted;
            }
        }
        times.reasons.sort_by(|a, b| {
            (b.time_ns, b.count, a.vcpu, &a.reason).cmp(&(a.time_ns, a.count, b.vcpu, &b.reason))
        });
        times.vcpus.sort_by_key(|vcpu| (vcpu.vcpu, vcpu.thread));
        times.irqfd_signals =
            self.irqfds.as_ref().map(|found| sum(found.rows.iter().filter(own), "hitcount"));
        times
    }

    fn vcpu(&self, vcpu: u64, thread: u64, threads: &Threads) -> Vcpu {
        let of = |histograms: &Histograms, name: &str| {
            // Rows with an exit reason are of another histogram of the same event.
            let own = |row: &&Row| row.thread() == Some(thread);
            sum(histograms.rows.iter().filter(own), name)
        };
        let (outside, user_ns) = (of(&self.outside, "ns"), of(&self.user, "ns"));
        // A halt that began before the trace is counted whole.
        let halted_ns = of(&self.halted, "ns").min(outside.saturating_sub(user_ns));
        let halts =
            self.halted.rows.iter().filter(|row| row.thread() == Some(thread) && row.get("ns").is_some());
        let scheduled = threads.scheduled(thread);
        let count = |found: &Option<Histograms>| found.as_ref().map(|found| of(found, "hitcount"));
        Vcpu {
            vcpu,
            thread,
            guest_ns: of(&self.guest, "ns"),
            kernel_ns: outside.saturating_sub(user_ns).saturating_sub(halted_ns),
            user_ns,
            halted_ns,
            waited_ns: scheduled.waited_ns,
            accounted_guest_ns: scheduled.guest_ns,
            accounted_host_ns: scheduled.host_ns,
            involuntary_switches: scheduled.involuntary,
            wake_ups: sum(halts, "hitcount"),
            injections: count(&self.injections),
            ioeventfd_signals: count(&self.ioeventfds),
        }
    }

    fn lost(&self) -> u64 {
        // An exit and its intervals are one event: what several have no room for is lost once.
        let exits = [&self.exits, &self.guest, &self.outside, &self.user];
        let exits = exits.into_iter().map(|found| found.dropped).max().unwrap_or(0);
        let others = [&self.injections, &self.ioeventfds, &self.irqfds].into_iter().flatten();
        exits + others.chain([&self.halted]).map(|found| found.dropped).sum::<u64>()
    }
}

/// Different numbers may have one name, and a virtual CPU more than one thread after another.
fn add(reasons: &mut Vec<Reason>, new: Reason) {
    let same = |known: &&mut Reason| known.vcpu == new.vcpu && known.reason == new.reason;
    match reasons.iter_mut().find(same) {
        Some(known) => {
            known.count += new.count;
            known.time_ns += new.time_ns;
            known.user_ns += new.user_ns;
            for (at_most, count) in new.lengths {
                match known.lengths.iter_mut().find(|(known, _)| *known == at_most) {
                    Some((_, known)) => *known += count,
                    None => known.lengths.push((at_most, count)),
                }
            }
            known.lengths.sort_unstable();
        }
        None => reasons.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::format::Extension;

    #[test]
    fn times_by_reason_and_by_virtual_cpu() {
        let own = u64::from(std::process::id());
        let threads = Threads::of(std::process::id()).unwrap();
        let rows = |text: &str| Histograms::parse(&text.replace("OWN", &own.to_string()));
        let format = "\tfield:u32 exit_reason;\n\tfield:u32 vcpu_id;\nprint fmt: __print_symbolic(a, { 1, \"b\" }) __print_symbolic(a, { 0x78, \"hlt\" }, { 0x7b, \"io\" })";
        let reasons = Reasons::parse(format, Extension::Svm).unwrap();
        let sums = Sums {
            exits: rows(
                "{ common_pid: OWN, vcpu_id: 0, exit_reason: 120 } hitcount: 2\n\
                 { common_pid: OWN, vcpu_id: 0, exit_reason: 123 } hitcount: 9\n\
                 { common_pid: 0, vcpu_id: 0, exit_reason: 123 } hitcount: 1000\n  Dropped: 3\n",
            ),
            guest: rows("{ common_pid: OWN } hitcount: 1 ns: 5000"),
            outside: rows(
                "{ common_pid: OWN, reason: 123, ns: ~ 2^7 } hitcount: 1\n\
                 { common_pid: OWN, reason: 123, ns: ~ 2^5 } hitcount: 8\n  Dropped: 2\n\
                 { common_pid: OWN, reason: 120 } hitcount: 2 ns: 800\n\
                 { common_pid: OWN, reason: 123 } hitcount: 9 ns: 400",
            ),
            user: rows("{ common_pid: OWN, reason: 123 } hitcount: 9 ns: 300"),
            halted: rows("{ common_pid: OWN } hitcount: 2 ns: 700"),
            ioeventfds: Some(rows("{ common_pid: OWN } hitcount: 4")),
            ..Sums::default()
        };
        let times = sums.times(&reasons, &threads);
        let found: Vec<_> = times
            .reasons
            .iter()
            .map(|r| (r.reason.as_str(), r.count, r.time_ns, r.user_ns, r.halted_ns))
            .collect();
        assert_eq!(found, [("io", 9, 400, 300, 0), ("hlt", 2, 100, 0, 700)]);
        let at_most = [0.5, 0.99, 1.0].map(|share| times.reasons[0].at_most_ns(share));
        assert_eq!(at_most, [Some(32), Some(128), Some(128)]);
        assert_eq!(times.reasons[1].at_most_ns(0.5), None);
        let later = times.since(&Times::default());
        assert_eq!(later, times);
        assert_eq!(times.since(&times).reasons, []);
        let vcpu = &times.vcpus[0];
        assert_eq!((vcpu.guest_ns, vcpu.kernel_ns, vcpu.user_ns, vcpu.halted_ns), (5000, 200, 300, 700));
        assert_eq!((vcpu.wake_ups, vcpu.injections, vcpu.ioeventfd_signals), (2, None, Some(4)));
        assert_eq!((times.vcpus.len(), times.irqfd_signals, times.lost), (1, None, 3));
    }
}
