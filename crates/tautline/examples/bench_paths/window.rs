//! The counts of the nested machine in a stretch of time, as its kernel writes them down.

use std::collections::{BTreeMap, BTreeSet};

/// Histogram triggers that count while events are counted: file below `events/`, and key.
pub const EVENTS: [(&str, &str); 4] = [
    ("kvm/kvm_exit", "exit_reason"),
    ("kvm/kvm_userspace_exit", "reason"),
    ("sched/sched_switch", "next_comm"),
    ("raw_syscalls/sys_enter", "common_pid.execname"),
];

/// The counts of one stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Exits, switches, system calls.
    Events,
    /// Instructions, by the clock, while no event is counted.
    Clock,
}

impl Kind {
    /// In this order.
    pub const BOTH: [Self; 2] = [Self::Events, Self::Clock];

    /// The shell function that writes the counters down.
    pub fn function(self) -> &'static str {
        match self {
            Self::Events => "now_events",
            Self::Clock => "now_clock",
        }
    }
}

/// Shell functions: `counting ''` switches counters on, `counting '!'` off; `now_events` and `now_clock` write their state.
pub fn shell() -> String {
    let files = EVENTS.map(|(file, _)| file).join(" ");
    let on: String = EVENTS
        .iter()
        .map(|(file, key)| format!("echo \"${{1}}hist:keys={key}\" >$events/{file}/trigger\n"))
        .collect();
    format!(
        "events=/sys/kernel/tracing/events
         counting() {{
         {on} :
         }}
         now_events() {{ for file in {files}; do echo \"--- $file\"; cat $events/$file/hist; done; }}
         now_clock() {{ echo '--- clock'; grep -E '^now at|idle_sleeptime' /proc/timer_list; }}
         "
    )
}

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The exits of the virtual CPU, by reason.
    pub exits: BTreeMap<String, i64>,
    /// The exits that returned to QEMU.
    pub to_user_space: i64,
    /// By the thread that runs then; the idle thread is left out.
    pub switches: BTreeMap<String, i64>,
    /// By thread.
    pub system_calls: BTreeMap<String, i64>,
    /// The machine's clock, ns.
    pub clock: i64,
    /// Of that, idle.
    pub idle: i64,
}

impl Counters {
    /// Reads what the shell functions wrote.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut counters = Self::default();
        let mut section = "";
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("--- ") {
                section = name;
            } else if let Some(dropped) = line.trim().strip_prefix("Dropped:") {
                if dropped.trim() != "0" {
                    return Err(format!("the kernel dropped counts: {section}: {line}"));
                }
            } else if let Some((key, count)) = row(line) {
                match section {
                    "kvm/kvm_exit" => *counters.exits.entry(key).or_default() += count,
                    "kvm/kvm_userspace_exit" => counters.to_user_space += count,
                    "sched/sched_switch" if key.starts_with("swapper/") => {}
                    "sched/sched_switch" => *counters.switches.entry(who(&key)).or_default() += count,
                    "raw_syscalls/sys_enter" => *counters.system_calls.entry(who(&key)).or_default() += count,
                    _ => return Err(format!("a count in no known section: {line}")),
                }
            } else if let Some(now) = line.strip_prefix("now at ") {
                counters.clock = number(now).ok_or_else(|| format!("no time in {line:?}"))?;
            } else if let Some((_, idle)) = line.split_once("idle_sleeptime") {
                counters.idle += number(idle.trim_start_matches([' ', ':'])).ok_or("no idle time")?;
            }
        }
        Ok(counters)
    }

    /// The counts since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: &BTreeMap<String, i64>, before: &BTreeMap<String, i64>| {
            let keys: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
            let of = |map: &BTreeMap<String, i64>, key| map.get(key).copied().unwrap_or(0);
            keys.into_iter().map(|key| (key.clone(), of(now, key) - of(before, key))).collect()
        };
        Self {
            exits: less(&self.exits, &before.exits),
            switches: less(&self.switches, &before.switches),
            system_calls: less(&self.system_calls, &before.system_calls),
            to_user_space: self.to_user_space - before.to_user_space,
            clock: self.clock - before.clock,
            idle: self.idle - before.idle,
        }
    }
}

/// `{ exit_reason:        123 } hitcount:       5001`
fn row(line: &str) -> Option<(String, i64)> {
    let (key, count) = line.trim().strip_prefix("{ ")?.split_once(" } hitcount:")?;
    Some((key.split_once(':')?.1.trim().to_owned(), number(count.trim())?))
}

fn number(text: &str) -> Option<i64> {
    text.split_whitespace().next()?.parse().ok()
}

/// A thread's name without ids: `vhost-345`, `CPU 0/KVM  [  350]`, `kworker/0:1`.
fn who(key: &str) -> String {
    let name = key.split('[').next().unwrap_or(key).trim();
    match name {
        _ if name.starts_with("vhost-") => "vhost".into(),
        _ if name.starts_with("kworker/") => "kworker".into(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_taken_off() {
        let text = |exits: u32, idle: u32| {
            format!(
                "before\n--- kvm/kvm_exit\n# event histogram\n{{ exit_reason:        123 }} hitcount:       {exits}\n\
                 Totals:\n    Hits: {exits}\n    Dropped: 0\n--- sched/sched_switch\n\
                 {{ next_comm: swapper/0        }} hitcount:         95\n{{ next_comm: vhost-345        }} hitcount:  2\n\
                 --- raw_syscalls/sys_enter\n{{ common_pid: CPU 0/KVM       [       350] }} hitcount:     7\n\
                 --- clock\nnow at 123456 nsecs\n  .idle_sleeptime : {idle} nsecs\n"
            )
        };
        let one = Counters::parse(&text(5, 100)).unwrap();
        assert_eq!((one.clock, one.idle, one.switches["vhost"], one.switches.len()), (123_456, 100, 2, 1));
        assert_eq!(one.system_calls["CPU 0/KVM"], 7);
        let grown = Counters::parse(&text(9, 150)).unwrap().since(&one);
        assert_eq!((grown.exits["123"], grown.idle, grown.clock), (4, 50, 0));
        assert!(Counters::parse("--- x\n    Dropped: 3\n").is_err());
    }
}
