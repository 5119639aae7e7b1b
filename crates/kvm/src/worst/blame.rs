//! Finds what used the time of a latency.

use std::collections::BTreeMap;

use super::cause::{Blame, Cause};
use super::latency::Latency;
use super::state::{GuestState, State, TIMER};
use crate::events::{Event, Kind, Pid, Trace};

/// This many timer interrupts within one latency are a storm, if most come within [`STORM_INTERVAL`] of the one before.
const STORM: usize = 4;
/// The longest interval between timer interrupts of a storm, ns. A kernel's own tick comes at most once a
/// millisecond.
const STORM_INTERVAL: u64 = 400_000;
/// A path is told by no more stretches than that: the longest.
const MOST_STRETCHES: usize = 32;

/// The parts of a latency, in the order of time. Each part between two events has one cause. While the guest runs,
/// its own trace gives more detail, if there is one on the host's clock.
pub fn stretches(trace: &Trace, guest: Option<&Trace>, latency: &Latency) -> Vec<Blame> {
    let (before, window) = split(trace, latency);
    // A thread waits for the CPU on which its next event occurs.
    let own: Vec<(u64, u32)> = window.iter().filter_map(|event| own(event, latency.pid)).collect();
    let Some((_, last_cpu)) = own.last().copied() else { return Vec::new() };
    let mut state = State::new(trace, latency.pid);
    before.iter().for_each(|event| state.see(event));
    let mut inside = guest.map(|guest| (split(guest, latency), GuestState::new(guest, latency.vcpu)));
    if let Some(((before, _), state)) = &mut inside {
        before.iter().for_each(|event| state.see(event));
    }
    let mut merged: Vec<(&Event, bool)> = window.iter().map(|event| (event, false)).collect();
    merged.extend(inside.iter().flat_map(|((_, window), _)| window.iter().map(|event| (event, true))));
    merged.sort_by_key(|(event, _)| event.time);

    let is_storm = is_storm(window, last_cpu);
    let mut found: Vec<Blame> = Vec::new();
    let (mut since, mut next) = (latency.began, 0);
    for (event, is_inside) in merged {
        while own.get(next).is_some_and(|(time, _)| *time < event.time) {
            next += 1;
        }
        let cpu = own.get(next).map_or(last_cpu, |(_, cpu)| *cpu);
        let first_on = || {
            let on_cpu = window.iter().find(|event| event.cpu == cpu);
            on_cpu.map_or(0, |event| match event.kind {
                Kind::Switch { previous, .. } => previous,
                _ => event.pid,
            })
        };
        let ns = event.time.saturating_sub(since);
        if ns > 0 {
            let cause = match (state.cause(cpu, first_on), &inside) {
                (Cause::Interrupt(name), _) if is_storm && name == TIMER => Cause::TimerStorm,
                // Between the interrupts of a storm nothing gets far.
                (Cause::Kernel, _) if is_storm => Cause::TimerStorm,
                (Cause::Guest, Some((_, inside))) => inside.cause(),
                (cause, _) => cause,
            };
            match found.last_mut().filter(|before| before.cause == cause) {
                Some(before) => before.ns += ns,
                None => found.push(Blame { cause, ns }),
            }
            since = event.time;
        }
        match (is_inside, &mut inside) {
            (true, Some((_, inside))) => inside.see(event),
            _ => state.see(event),
        }
    }
    found
}

/// Whether a CPU is in a storm of timer interrupts. One long gap between the interrupts does not end the storm.
fn is_storm(window: &[Event], cpu: u32) -> bool {
    let is_timer = |event: &&Event| event.cpu == cpu && event.kind == Kind::Timer;
    let times: Vec<u64> = window.iter().filter(is_timer).map(|event| event.time).collect();
    let mut intervals: Vec<u64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    intervals.sort_unstable();
    times.len() >= STORM && intervals[intervals.len() / 2] <= STORM_INTERVAL
}

/// The events before a latency, and those during it.
fn split<'a>(trace: &'a Trace, latency: &Latency) -> (&'a [Event], &'a [Event]) {
    let first = trace.events.partition_point(|event| event.time < latency.began);
    let last = trace.events.partition_point(|event| event.time <= latency.ended);
    (&trace.events[..first], &trace.events[first..last.max(first)])
}

/// When and where a thread does something itself, or begins to.
fn own(event: &Event, pid: Pid) -> Option<(u64, u32)> {
    let is_own = match event.kind {
        Kind::Switch { previous, next, .. } => previous == pid || next == pid,
        _ => event.pid == pid,
    };
    is_own.then_some((event.time, event.cpu))
}

/// The causes of one latency, the longest first.
pub fn blame(trace: &Trace, latency: &Latency) -> Vec<Blame> {
    sum(&stretches(trace, None, latency))
}

/// Sums parts by cause, the longest first.
pub(super) fn sum(stretches: &[Blame]) -> Vec<Blame> {
    let mut times: BTreeMap<&Cause, u64> = BTreeMap::new();
    for stretch in stretches {
        *times.entry(&stretch.cause).or_default() += stretch.ns;
    }
    let mut found: Vec<Blame> =
        times.into_iter().map(|(cause, ns)| Blame { cause: cause.clone(), ns }).collect();
    found.sort_by_key(|blame| std::cmp::Reverse(blame.ns));
    found
}

/// The longest of the parts, in the order of time.
pub(super) fn in_short(stretches: &[Blame]) -> Vec<Blame> {
    let mut longest: Vec<usize> = (0..stretches.len()).collect();
    longest.sort_by_key(|at| std::cmp::Reverse(stretches[*at].ns));
    longest.truncate(MOST_STRETCHES);
    longest.sort_unstable();
    longest.into_iter().map(|at| stretches[at].clone()).collect()
}

/// Causes that took longer in the maximum than in the median, the largest difference first.
pub fn longer(worst: &[Blame], median: &[Blame]) -> Vec<Blame> {
    let usual = |cause: &Cause| median.iter().find(|blame| blame.cause == *cause).map_or(0, |blame| blame.ns);
    let mut found: Vec<Blame> = worst
        .iter()
        .map(|blame| Blame { cause: blame.cause.clone(), ns: blame.ns.saturating_sub(usual(&blame.cause)) })
        .filter(|blame| blame.ns > 0)
        .collect();
    found.sort_by_key(|blame| std::cmp::Reverse(blame.ns));
    found
}
