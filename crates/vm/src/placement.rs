//! Decides the CPUs and the policy of each thread of a guest. This module reads and changes nothing on the host.

use host::{CpuList, Scheduling, Thread};
use serde::Serialize;

use crate::{HostCpus, Profile, Role, Shortfall};

/// The user's wishes for CPUs.
#[derive(Clone, Debug)]
pub struct CpuWishes {
    /// The profile of the guest.
    pub profile: Profile,
    /// The number of vCPUs; if `vcpu_cpus` is given, one vCPU for each of its CPUs.
    pub count: usize,
    /// The CPUs of the vCPUs; `None` lets the plan choose.
    pub vcpu_cpus: Option<CpuList>,
    /// The CPUs of all other threads; `None` lets the plan choose.
    pub housekeeping: Option<CpuList>,
    /// The vCPUs' SCHED_FIFO priority, if it differs from the profile's.
    pub priority: Option<i32>,
}

/// The CPUs and the policy of every thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The CPU of each vCPU; `None` if the vCPU has no CPU of its own.
    pub vcpus: Vec<Option<usize>>,
    /// The CPUs of vCPUs that have no CPU of their own; empty if those vCPUs are left unchanged.
    pub shared: CpuList,
    /// The CPUs of all other threads; empty if those threads are left unchanged.
    pub housekeeping: CpuList,
    /// The SCHED_FIFO priority of vCPUs.
    pub priority: Option<i32>,
    /// The memory node of the vCPUs, if the host has several nodes and all vCPUs are on one.
    pub node: Option<usize>,
}

/// The settings that one thread is to have. A setting that is `None` is left unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The CPUs that the thread may use.
    pub cpus: Option<CpuList>,
    /// The thread's policy and priority.
    pub scheduling: Option<Scheduling>,
}

const ORDINARY: Scheduling = Scheduling { policy: 0, priority: 0 };
const SET_ASIDE: &str = "name CPUs with --vcpu-cpus and --housekeeping, or give the guest fewer vCPUs";

impl Placement {
    /// Finds the CPUs, and returns a shortfall for each wish that there are too few CPUs for.
    pub fn plan(wishes: &CpuWishes, host: &HostCpus) -> (Self, Vec<Shortfall>) {
        let mut missing = Vec::new();
        let named = |list: &Option<CpuList>, option: &str, missing: &mut Vec<Shortfall>| {
            let list = list.as_ref()?;
            let lacking = list.without(&host.usable);
            if !lacking.is_empty() {
                missing.push(Shortfall::new(
                    format!("threads on CPU {lacking} ({option})"),
                    format!("this process may use {}", host.usable),
                    "fewer CPUs for the guest than were named",
                    "name others, or see what cpuset and CPUs online say",
                ));
            }
            Some(list.and(&host.usable))
        };
        let vcpu_cpus = named(&wishes.vcpu_cpus, "--vcpu-cpus", &mut missing);
        let housekeeping = named(&wishes.housekeeping, "--housekeeping", &mut missing);
        if !wishes.profile.places_threads() {
            let placement = Placement {
                vcpus: vec![None; wishes.count],
                shared: vcpu_cpus.unwrap_or_default(),
                housekeeping: housekeeping.unwrap_or_default(),
                priority: None,
                node: None,
            };
            return (placement, missing);
        }
        let chosen = vcpu_cpus.unwrap_or_else(|| choose(wishes.count, housekeeping.as_ref(), host));
        let mut vcpus: Vec<Option<usize>> = chosen.iter().map(Some).collect();
        vcpus.resize(wishes.count, None);
        if chosen.len() < wishes.count {
            missing.push(Shortfall::new(
                format!("a CPU of its own for {} of {} vCPUs", wishes.count - chosen.len(), wishes.count),
                format!("{} of the CPUs {} are left for them", chosen.len(), host.usable),
                "they wait for each other and for QEMU, for milliseconds at a time",
                SET_ASIDE,
            ));
        }
        let rest = host.usable.without(&chosen);
        let quiet = rest.without(&host.isolated);
        let own = housekeeping.unwrap_or(if quiet.is_empty() { rest } else { quiet });
        let mut priority = wishes.priority.or(wishes.profile.priority());
        if own.within(&chosen) {
            missing.push(Shortfall::new(
                "a CPU for QEMU's own threads",
                format!("the vCPUs have {chosen} of the CPUs {}", host.usable),
                match priority {
                    Some(_) => {
                        "they interrupt vCPUs, which are not put into SCHED_FIFO: those would stop QEMU"
                    }
                    None => "they interrupt vCPUs",
                },
                SET_ASIDE,
            ));
            priority = None;
        } else if !own.and(&chosen).is_empty() {
            missing.push(Shortfall::new(
                "vCPUs alone on their CPUs",
                format!("CPU {} is for QEMU's own threads as well", own.and(&chosen)),
                "these interrupt the guest",
                "name others with --housekeeping",
            ));
        }
        let nodes = host.nodes_of(&chosen);
        if nodes.len() > 1 {
            missing.push(Shortfall::new(
                "CPUs and memory on one node",
                format!("the CPUs {chosen} are on the nodes {nodes:?}"),
                "accesses to the other node's memory cross the interconnect",
                "name CPUs of one node with --vcpu-cpus",
            ));
        }
        let placement = Placement {
            // A vCPU without a CPU of its own must not go before others of its kind.
            shared: if vcpus.contains(&None) { host.usable.clone() } else { CpuList::default() },
            housekeeping: if own.is_empty() { host.usable.clone() } else { own },
            vcpus,
            priority,
            node: (nodes.len() == 1).then(|| nodes[0]),
        };
        (placement, missing)
    }

    /// The settings that a thread with this role is to have.
    pub fn wanted(&self, role: Role) -> Wanted {
        let list = |cpus: &CpuList| (!cpus.is_empty()).then(|| cpus.clone());
        let others = self.priority.map(|_| ORDINARY);
        match role {
            Role::Vcpu(number) => match self.vcpus.get(number).copied().flatten() {
                Some(cpu) => Wanted {
                    cpus: Some([cpu].into_iter().collect()),
                    scheduling: self.priority.map(Scheduling::fifo),
                },
                None => Wanted { cpus: list(&self.shared), scheduling: others },
            },
            // The kernel's own helpers keep their policy.
            Role::Kernel => Wanted { cpus: list(&self.housekeeping), scheduling: None },
            // Such a thread inherits from whichever thread made it.
            Role::Emulator | Role::Io | Role::Vhost => {
                Wanted { cpus: list(&self.housekeeping), scheduling: others }
            }
        }
    }

    /// The CPUs that belong to single vCPUs.
    pub fn vcpu_cpus(&self) -> CpuList {
        self.vcpus.iter().copied().flatten().collect()
    }

    /// The shortfalls for threads of a real-time kernel that would wait for a vCPU on its CPU and make the whole host
    /// wait.
    pub fn order(&self, threads: &[Thread], host: &HostCpus) -> Vec<Shortfall> {
        let Some(priority) = self.priority.filter(|_| host.real_time) else { return Vec::new() };
        let serves = |thread: &&Thread| {
            let part = thread.id.name.split_once('/');
            let kind = part.map_or("", |(kind, _)| kind);
            let cpu = part.and_then(|(_, cpu)| cpu.parse().ok());
            thread.kernel
                && ["ksoftirqd", "ktimers", "rcuc"].contains(&kind)
                && cpu.is_some_and(|cpu| self.vcpu_cpus().contains(cpu))
        };
        let behind =
            |thread: &&Thread| !thread.scheduling.is_real_time() || thread.scheduling.priority <= priority;
        let names: Vec<String> = threads
            .iter()
            .filter(serves)
            .filter(behind)
            .map(|thread| format!("{} ({})", thread.id.name, thread.scheduling))
            .collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![Shortfall::new(
            format!("the kernel's own threads before vCPUs at fifo {priority}"),
            format!("these are not: {}", names.join(", ")),
            "a vCPU that never halts stops RCU and timers of its CPU, and then the host",
            "`tautline host apply --rules fifo-order` orders them, or give a lower --priority",
        )]
    }
}

/// CPUs set aside come first; then the last ones, for the first have most of the host's own work. Of one node where
/// one has enough.
fn choose(count: usize, housekeeping: Option<&CpuList>, host: &HostCpus) -> CpuList {
    let rest = host.usable.without(housekeeping.unwrap_or(&CpuList::default()));
    let candidates = if host.isolated.and(&rest).len() >= count {
        host.isolated.and(&rest)
    } else if housekeeping.is_some() {
        rest
    } else {
        // One CPU at least stays for QEMU's own threads.
        rest.iter().skip(1).collect()
    };
    let of_a_node = host.nodes.iter().map(|(_, cpus)| candidates.and(cpus)).find(|cpus| cpus.len() >= count);
    let candidates = of_a_node.unwrap_or(candidates);
    let surplus = candidates.len().saturating_sub(count);
    candidates.iter().skip(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::ThreadId;

    fn cpus(list: &str) -> CpuList {
        list.parse().unwrap()
    }

    fn host(usable: &str, isolated: &str, nodes: &[&str]) -> HostCpus {
        HostCpus {
            usable: cpus(usable),
            isolated: cpus(isolated),
            nodes: nodes.iter().map(|list| cpus(list)).enumerate().collect(),
            real_time: false,
        }
    }

    fn wishes(profile: Profile, count: usize) -> CpuWishes {
        CpuWishes { profile, count, vcpu_cpus: None, housekeeping: None, priority: None }
    }

    fn list(placement: &Placement, role: Role) -> String {
        placement.wanted(role).cpus.map(|cpus| cpus.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_thread_of_a_real_time_guest_has_its_place() {
        let (placement, missing) =
            Placement::plan(&wishes(Profile::RealtimeGuest, 2), &host("0-7", "4-7", &["0-7"]));
        assert_eq!(missing, []);
        assert_eq!((placement.vcpus.as_slice(), placement.node), (&[Some(6), Some(7)][..], None));
        assert_eq!(list(&placement, Role::Vcpu(1)), "7");
        assert_eq!(placement.wanted(Role::Vcpu(0)).scheduling, Some(Scheduling::fifo(1)));
        for role in [Role::Emulator, Role::Io, Role::Vhost] {
            assert_eq!(list(&placement, role), "0-3", "CPUs that are set aside stay so");
            assert_eq!(
                placement.wanted(role).scheduling,
                Some(ORDINARY),
                "what a vCPU thread starts is not FIFO"
            );
        }
        assert_eq!(placement.wanted(Role::Kernel).scheduling, None);
    }

    #[test]
    fn what_the_user_names_is_taken() {
        let wishes = CpuWishes {
            vcpu_cpus: Some(cpus("2-3")),
            housekeeping: Some(cpus("0")),
            priority: Some(7),
            ..wishes(Profile::Latency, 2)
        };
        let (placement, missing) = Placement::plan(&wishes, &host("0-3", "", &["0-3"]));
        assert_eq!(missing, []);
        assert_eq!((list(&placement, Role::Vcpu(0)), list(&placement, Role::Io)), ("2".into(), "0".into()));
        assert_eq!(placement.wanted(Role::Vcpu(1)).scheduling, Some(Scheduling::fifo(7)));
    }

    #[test]
    fn a_plain_guest_is_left_alone() {
        let (placement, missing) = Placement::plan(&wishes(Profile::Plain, 9), &host("0-1", "", &[]));
        assert_eq!(missing, []);
        for role in [Role::Vcpu(8), Role::Emulator, Role::Kernel] {
            assert_eq!(placement.wanted(role), Wanted::default());
        }
    }

    #[test]
    fn too_few_cpus_are_said_and_nothing_can_stop_qemu() {
        let (placement, missing) = Placement::plan(&wishes(Profile::RealtimeGuest, 2), &host("0-1", "", &[]));
        assert_eq!(placement.vcpus, [Some(1), None]);
        assert!(missing[0].not_done.contains("1 of 2 vCPUs"), "{missing:?}");
        assert_eq!(placement.wanted(Role::Vcpu(1)).scheduling, Some(ORDINARY), "it shares its CPUs");

        let (placement, missing) = Placement::plan(&wishes(Profile::RealtimeGuest, 1), &host("0", "", &[]));
        assert_eq!(placement.vcpus, [None]);
        assert!(!missing.is_empty());
        let named = CpuWishes { vcpu_cpus: Some(cpus("0-1")), ..wishes(Profile::RealtimeGuest, 2) };
        let (placement, missing) = Placement::plan(&named, &host("0-1", "", &[]));
        assert_eq!(placement.priority, None, "a vCPU in FIFO would stop the threads beside it");
        assert_eq!(placement.wanted(Role::Emulator).cpus, Some(cpus("0-1")));
        assert!(missing[0].costs.contains("not put into SCHED_FIFO"), "{missing:?}");

        let named = CpuWishes { vcpu_cpus: Some(cpus("5")), ..wishes(Profile::Latency, 1) };
        let (_, missing) = Placement::plan(&named, &host("0-1", "", &[]));
        assert!(missing[0].not_done.contains("CPU 5"), "{missing:?}");
    }

    #[test]
    fn a_guest_stays_on_one_node_where_it_can() {
        let two = host("0-7", "", &["0-3", "4-7"]);
        let (placement, missing) = Placement::plan(&wishes(Profile::Latency, 3), &two);
        assert_eq!((missing.len(), placement.node), (0, Some(0)));
        assert_eq!(placement.vcpu_cpus(), cpus("1-3"));
        let (placement, missing) = Placement::plan(&wishes(Profile::Latency, 6), &two);
        assert_eq!(placement.node, None);
        assert!(missing[0].not_done.contains("one node"), "{missing:?}");
    }

    #[test]
    fn kernel_threads_behind_a_vcpu_are_said_on_a_real_time_kernel() {
        let thread = |name: &str, scheduling| Thread {
            id: ThreadId { id: 1, name: name.into(), started: 1 },
            kernel: true,
            bound: true,
            process: 1,
            cpus: cpus("1"),
            scheduling,
        };
        let threads = [
            thread("rcuc/1", Scheduling::fifo(1)),
            thread("ksoftirqd/1", Scheduling::fifo(2)),
            thread("rcuc/0", ORDINARY),
        ];
        let mut host = host("0-1", "", &[]);
        let (placement, _) = Placement::plan(&wishes(Profile::RealtimeGuest, 1), &host);
        assert_eq!(placement.order(&threads, &host), [], "a stock kernel's soft interrupts are no threads");
        host.real_time = true;
        let missing = placement.order(&threads, &host);
        assert!(missing[0].because.ends_with("these are not: rcuc/1 (fifo 1)"), "{missing:?}");
    }
}
