//! Puts every thread of a QEMU on its CPUs, and keeps it there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use host::journal::{Entry, Journal};
use host::{HostTree, Knob, Thread, ThreadId, threads};
use measure::Failure;
use serde::Serialize;

use crate::{Placement, Role, Roles, Shortfall};

/// Between two looks at threads of the kernel: all processes have to be asked for their names.
const KERNEL_SCAN: Duration = Duration::from_secs(5);
/// The journal's name for what is set here.
const RULE: &str = "vm";

/// One thread, in the form that is shown to the user.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadStatus {
    /// Its id.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// The thread's role.
    pub role: Role,
    /// The thread's settings when it was first seen.
    pub found: State,
    /// The settings that the placement gives the thread. A setting that is `None` is left unchanged.
    pub wanted: WantedState,
    /// The thread's present settings.
    pub now: State,
    /// The number of times that another program changed the thread and this one restored it.
    pub corrected: u32,
    /// The reason why the thread does not have the settings that the placement gives it.
    pub refused: Option<String>,
}

/// A thread's CPUs, policy and priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// A list of CPUs.
    pub cpus: String,
    /// The policy and priority, such as `fifo 1`.
    pub scheduling: String,
}

/// Wanted CPUs, policy and priority; `None` if any value is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WantedState {
    /// A list of CPUs.
    pub cpus: Option<String>,
    /// The policy and priority, such as `fifo 1`.
    pub scheduling: Option<String>,
}

/// The events that [`Watch::look`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread was seen for the first time, and now has its settings.
    Placed {
        /// Which.
        thread: String,
    },
    /// Another program had changed a thread; the thread's settings were restored.
    Corrected {
        /// Which thread.
        thread: String,
        /// The settings that were found.
        found: String,
        /// The settings that were restored.
        wanted: String,
        /// The number of corrections so far.
        times: u32,
    },
    /// The kernel refused a thread's CPUs or policy.
    Refused(Failure),
}

/// Watches the threads of one QEMU.
pub struct Watch {
    tree: HostTree,
    process: i32,
    placement: Placement,
    roles: Roles,
    seen: BTreeMap<(i32, u64), Seen>,
    kernel: Vec<ThreadId>,
    scanned: Option<Instant>,
    journal: Option<Journal>,
    /// Whether nothing is changed.
    looks_only: bool,
}

struct Seen {
    status: ThreadStatus,
    /// Whether the thread has had its settings since it was first seen.
    placed: bool,
}

impl Watch {
    /// Watches the threads of a process. Reads nothing before [`Watch::look`] is called.
    pub fn new(process: u32, placement: Placement) -> Self {
        Watch {
            tree: HostTree::live(),
            process: process.cast_signed(),
            placement,
            roles: Roles::default(),
            seen: BTreeMap::new(),
            kernel: Vec::new(),
            scanned: None,
            journal: None,
            looks_only: false,
        }
    }

    /// Makes the watch only look, without changes.
    pub fn looking_only(mut self) -> Self {
        self.looks_only = true;
        self
    }

    /// Records the settings that it finds in a journal before it changes them.
    pub fn with_journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// The state of all threads at the last look, vCPUs first.
    pub fn threads(&self) -> Vec<ThreadStatus> {
        let mut all: Vec<ThreadStatus> = self.seen.values().map(|seen| seen.status.clone()).collect();
        all.sort_by_key(|status| (status.role, status.id));
        all
    }

    /// The settings that could not be set.
    pub fn shortfalls(&self) -> Vec<Shortfall> {
        let all = self.seen.values().map(|seen| &seen.status);
        all.filter_map(|status| {
            let refused = status.refused.as_ref()?;
            let WantedState { cpus, scheduling } = &status.wanted;
            let cpus = cpus.as_ref().map(|cpus| format!("on CPU {cpus}"));
            let wanted: Vec<String> = cpus.into_iter().chain(scheduling.clone()).collect();
            Some(Shortfall::new(
                format!("{} ({}) {}", status.role, status.name, wanted.join(", ")),
                refused,
                "it runs where and when the host's scheduler wants",
                "run as root (CAP_SYS_NICE), and see the cpuset of its cgroup",
            ))
        })
        .collect()
    }

    /// Reads every thread's CPUs and policy, and corrects the threads whose settings differ from the placement. `ask`
    /// returns the roles of threads; it is called only if there are new threads.
    ///
    /// # Errors
    /// The threads cannot be read, or the journal cannot be written.
    pub fn look(&mut self, ask: impl FnOnce() -> Option<Roles>) -> Result<Vec<Event>, Failure> {
        let now = self.read_threads()?;
        let living: BTreeSet<(i32, u64)> =
            now.iter().map(|thread| (thread.id.id, thread.id.started)).collect();
        self.seen.retain(|key, _| living.contains(key));
        let is_new = |thread: &Thread| !self.seen.contains_key(&(thread.id.id, thread.id.started));
        if now.iter().any(is_new) {
            // Without an answer, names tell.
            self.roles = ask().unwrap_or_else(|| self.roles.clone());
        }
        let mut events = Vec::new();
        for thread in now {
            self.put_right(thread, &mut events)?;
        }
        Ok(events)
    }

    fn read_threads(&mut self) -> Result<Vec<Thread>, Failure> {
        let failed = |answer: String| {
            Failure::new("looking at QEMU's threads", answer, "run as the user who started it, or as root")
        };
        let mut all = threads::of_process(&self.tree, self.process).map_err(failed)?;
        if self.scanned.is_none_or(|last| last.elapsed() > KERNEL_SCAN) {
            let helpers =
                threads::named(&self.tree, |name| Role::serves(name, self.process)).map_err(failed)?;
            self.kernel = helpers.into_iter().map(|thread| thread.id).collect();
            self.scanned = Some(Instant::now());
        }
        all.extend(self.kernel.iter().filter_map(|id| threads::now(&self.tree, id)));
        Ok(all)
    }

    fn put_right(&mut self, thread: Thread, events: &mut Vec<Event>) -> Result<(), Failure> {
        let role = self.roles.of(thread.id.id, &thread.id.name);
        let wanted = self.placement.wanted(role);
        let state = State { cpus: thread.cpus.to_string(), scheduling: thread.scheduling.to_string() };
        let wanted = WantedState {
            cpus: wanted.cpus.map(|cpus| cpus.to_string()),
            scheduling: wanted.scheduling.map(|scheduling| scheduling.to_string()),
        };
        let key = (thread.id.id, thread.id.started);
        let is_new = !self.seen.contains_key(&key);
        let seen = self.seen.entry(key).or_insert_with(|| Seen {
            status: ThreadStatus {
                id: thread.id.id,
                name: String::new(),
                role,
                found: state.clone(),
                wanted: wanted.clone(),
                now: state.clone(),
                corrected: 0,
                refused: None,
            },
            placed: false,
        });
        // A new thread has its maker's name for a moment, and with it perhaps another role.
        let same_role = seen.status.role == role;
        let status = &mut seen.status;
        (status.role, status.wanted, status.now) = (role, wanted.clone(), state);
        status.name.clone_from(&thread.id.name);

        let knobs = [
            (Knob::Affinity { thread: thread.id.clone() }, wanted.cpus),
            (Knob::Scheduling { thread: thread.id.clone() }, wanted.scheduling),
        ];
        let mut refused = None;
        for (knob, wanted) in knobs {
            let Some(wanted) = wanted else { continue };
            let is_affinity = matches!(knob, Knob::Affinity { .. });
            let found = if is_affinity { &mut status.now.cpus } else { &mut status.now.scheduling };
            if self.looks_only || knob.same(found, &wanted) {
                continue;
            }
            if let Some(journal) = &mut self.journal {
                let (rule, writing) = (RULE.to_owned(), wanted.clone());
                journal.record(Entry { rule, knob: knob.clone(), found: Some(found.clone()), writing })?;
            }
            match write(&self.tree, &knob, &wanted) {
                // The thread has ended meanwhile.
                Ok(None) => return Ok(()),
                Ok(Some(now)) => {
                    let before = std::mem::replace(found, now);
                    if seen.placed && same_role {
                        status.corrected += 1;
                        events.push(Event::Corrected {
                            thread: format!("{role}, thread {} ({})", thread.id.id, thread.id.name),
                            found: before,
                            wanted,
                            times: status.corrected,
                        });
                    }
                }
                Err(failure) => {
                    if status.refused.is_none() {
                        events.push(Event::Refused(failure.clone()));
                    }
                    refused = Some(failure.answer);
                }
            }
        }
        status.refused = refused;
        seen.placed = true;
        if is_new {
            events.push(Event::Placed {
                thread: format!("{role}, thread {} ({})", thread.id.id, thread.id.name),
            });
        }
        Ok(())
    }
}

/// Writes, and reads back. None where the thread has ended.
fn write(tree: &HostTree, knob: &Knob, wanted: &str) -> Result<Option<String>, Failure> {
    let written = knob.write(tree, wanted);
    let Some(now) = knob.read(tree)? else { return Ok(None) };
    written?;
    if knob.same(&now, wanted) {
        return Ok(Some(now));
    }
    Err(Failure::new(
        format!("setting {knob} to {wanted:?}"),
        format!("the kernel took it, and says {now:?} now"),
        "see the cpuset of its cgroup, which may not have these CPUs",
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use linux::cpus::{bind_thread, usable};

    use super::*;

    /// Lets a thread of this name run until the sender is dropped.
    fn thread(name: &str) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
        let (hold, held) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let _ = held.recv();
        });
        (hold, thread.unwrap())
    }

    fn found<'a>(threads: &'a [ThreadStatus], name: &str) -> &'a ThreadStatus {
        threads.iter().find(|status| status.name == name).unwrap()
    }

    /// This very process stands in for QEMU: its threads have names as QEMU's.
    #[test]
    fn threads_are_placed_followed_and_put_back() {
        let cpus = usable().unwrap();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let placement = Placement {
            vcpus: vec![Some(last)],
            shared: Default::default(),
            housekeeping: Default::default(),
            priority: None,
            node: None,
        };
        let mut watch = Watch::new(std::process::id(), placement.clone());
        let deadline = Instant::now() + Duration::from_secs(20);
        // A thread has its maker's name until it names itself.
        let see = |watch: &mut Watch, name: &str| {
            while !watch.threads().iter().any(|status| status.name == name) {
                assert!(Instant::now() < deadline, "{name}: {:?}", watch.threads());
                watch.look(|| None).unwrap();
            }
        };
        let (_hold, _vcpu) = thread("CPU 0/TCG");
        see(&mut watch, "CPU 0/TCG");
        let threads = watch.threads();
        let vcpu = found(&threads, "CPU 0/TCG");
        assert_eq!((vcpu.role, vcpu.now.cpus.as_str()), (Role::Vcpu(0), last.to_string().as_str()));
        assert!(threads.iter().filter(|status| status.role == Role::Emulator).all(|it| it.now == it.found));

        bind_thread(vcpu.id as u32, &cpus).unwrap();
        let events = watch.look(|| None).unwrap();
        let corrected = |event: &Event| matches!(event, Event::Corrected { times: 1, .. });
        assert_eq!(events.iter().any(corrected), first != last, "{events:?}");
        assert_eq!(found(&watch.threads(), "CPU 0/TCG").now.cpus, last.to_string());

        // A thread that appears later, on the wrong CPUs.
        let (hold, late) = thread("CPU 0/late");
        see(&mut watch, "CPU 0/late");
        assert_eq!(found(&watch.threads(), "CPU 0/late").now.cpus, last.to_string());
        drop(hold);
        late.join().unwrap();
        watch.look(|| None).unwrap();
        assert!(
            watch.threads().iter().all(|status| status.name != "CPU 0/late"),
            "what has ended is forgotten"
        );

        // A watch that only looks changes nothing.
        bind_thread(vcpu.id as u32, &cpus).unwrap();
        let mut audit = Watch::new(std::process::id(), placement).looking_only();
        assert_eq!(audit.look(|| None).unwrap().iter().filter(|event| corrected(event)).count(), 0);
        let now = found(&audit.threads(), "CPU 0/TCG").now.cpus.clone();
        assert_eq!(now.parse(), Ok(cpus.into_iter().collect::<host::CpuList>()));
    }
}
