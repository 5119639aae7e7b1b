//! Constructed traces, each of one path. Order and fields are those of Linux 6.1.

use kvm::events::{Context, Event, Kind, Pid, Target, Trace};
use kvm::path::Arrow::{self, Device, Entry, Exit, Return, SystemCall, WakeUp};
use kvm::path::{Traffic, follow, syscalls};

const VCPU: Pid = 101;
const QEMU: Pid = 100;
const FUTEX: u64 = 202;
const IOCTL: u64 = 16;

#[derive(Default)]
struct Story {
    trace: Trace,
}

impl Story {
    fn event(mut self, cpu: u32, pid: Pid, context: Context, kind: Kind) -> Self {
        let time = 1_000 * (self.trace.events.len() as u64 + 1);
        self.trace.events.push(Event { time, cpu, pid, context, kind });
        self
    }

    fn task(self, pid: Pid, kind: Kind) -> Self {
        self.event(u32::from(pid == VCPU), pid, Context::Task, kind)
    }

    fn interrupt(self, cpu: u32, kind: Kind) -> Self {
        self.event(cpu, 0, Context::Interrupt, kind)
    }

    fn exit(self, reason: &str) -> Self {
        self.task(VCPU, Kind::Exit { vcpu: 0, reason: reason.into() })
    }

    fn enter(self) -> Self {
        self.task(VCPU, Kind::Entry { vcpu: 0 })
    }

    fn call(self, pid: Pid, number: u64) -> Self {
        self.task(pid, Kind::SyscallEnter { number })
    }

    fn returns(self, pid: Pid, number: u64) -> Self {
        self.task(pid, Kind::SyscallExit { number })
    }

    fn wakes(self, pid: Pid, target: Pid) -> Self {
        self.task(pid, Kind::Waking { target })
    }

    fn switch(self, previous: Pid, next: Pid) -> Self {
        let cpu = u32::from(previous == VCPU || next == VCPU);
        let kind = Kind::Switch { previous, runnable: false, next, priority: 120 };
        self.event(cpu, previous, Context::Task, kind)
    }

    fn halts(self) -> Self {
        self.exit("hlt").switch(VCPU, 0)
    }

    /// Delivered, handled with one end of interrupt, and halted again.
    fn delivered(self, vector: u32) -> Self {
        self.task(VCPU, Kind::Inject { vector }).enter()
    }

    fn steps(&self, traffic: Traffic) -> Vec<(Arrow, String)> {
        let target = Target { pid: QEMU, threads: vec![QEMU, VCPU], has_vfio: false };
        let chains = follow::all(&self.trace, &target, traffic);
        assert_eq!(chains.len(), 1, "{chains:#?}");
        chains[0].steps.iter().map(|step| (step.arrow, step.what.clone())).collect()
    }
}

/// With the names of system calls that x86-64 has under their numbers.
fn named(steps: &[(Arrow, &str)]) -> Vec<(Arrow, String)> {
    let number = |what: &str| match what {
        "write" => Some(1),
        "ioctl" => Some(IOCTL),
        "futex" => Some(FUTEX),
        "io_submit" => Some(209),
        "ppoll" => Some(271),
        _ => None,
    };
    let name = |what: &str| number(what).map_or(what.to_owned(), syscalls::name);
    steps.iter().map(|(arrow, what)| (*arrow, name(what))).collect()
}

#[test]
fn a_timer_wakes_a_halted_guest() {
    let story = Story::default()
        .enter()
        .halts()
        .interrupt(1, Kind::Timer)
        .interrupt(1, Kind::Waking { target: VCPU })
        .switch(0, VCPU)
        .task(VCPU, Kind::Accept { apic: 0, vector: 236 })
        .delivered(236)
        .halts();
    assert_eq!(story.steps(Traffic::Interrupt), named(&[(WakeUp, ""), (Entry, "")]));
}

#[test]
fn a_timer_meets_a_running_guest() {
    let story = Story::default()
        .enter()
        .exit("npf")
        .enter()
        .exit("interrupt")
        .event(1, VCPU, Context::Interrupt, Kind::Timer)
        .task(VCPU, Kind::Accept { apic: 0, vector: 236 })
        .delivered(236)
        .halts();
    assert_eq!(story.steps(Traffic::Interrupt), named(&[(Exit, "interrupt"), (Entry, "")]));
}

#[test]
fn a_request_passes_through_its_device() {
    let (device, sector) = ("254,0".to_owned(), 8);
    let story = Story::default()
        .enter()
        .exit("npf")
        .wakes(VCPU, QEMU)
        .enter()
        .halts()
        .switch(0, QEMU)
        .returns(QEMU, 271)
        .call(QEMU, 209)
        .task(QEMU, Kind::BlockIssue { device: device.clone(), sector })
        .returns(QEMU, 209)
        .call(QEMU, 271)
        .switch(QEMU, 0)
        .interrupt(0, Kind::IrqEntry { name: "nvme0q1".into() })
        .interrupt(0, Kind::BlockComplete { device, sector })
        .interrupt(0, Kind::Waking { target: QEMU })
        .switch(0, QEMU)
        .returns(QEMU, 271)
        .call(QEMU, 1)
        .task(QEMU, Kind::Accept { apic: 0, vector: 35 })
        .wakes(QEMU, VCPU)
        .switch(0, VCPU)
        .delivered(35)
        .halts();
    let steps = [
        (Exit, "npf"),
        (WakeUp, ""),
        (Return, "ppoll"),
        (SystemCall, "io_submit"),
        (Device, "request"),
        (WakeUp, ""),
        (Return, "ppoll"),
        (SystemCall, "write"),
        (WakeUp, ""),
        (Entry, ""),
    ];
    assert_eq!(story.steps(Traffic::Block), named(&steps));
}

/// While QEMU's main thread has the lock, the virtual CPU's thread waits; the handler is not done yet.
#[test]
fn a_handler_that_waits_for_a_lock_goes_on() {
    let arrival = Kind::Net { name: "net_dev_start_xmit".into(), device: "tap0".into() };
    let story = Story::default()
        .enter()
        .halts()
        .task(300, arrival)
        .wakes(300, QEMU)
        .switch(0, QEMU)
        .returns(QEMU, 271)
        .call(QEMU, IOCTL)
        .task(QEMU, Kind::Accept { apic: 0, vector: 35 })
        .wakes(QEMU, VCPU)
        .switch(0, VCPU)
        .delivered(35)
        .exit("npf")
        .returns(VCPU, IOCTL)
        .call(VCPU, FUTEX)
        .switch(VCPU, 0)
        .call(QEMU, FUTEX)
        .wakes(QEMU, VCPU)
        .switch(0, VCPU)
        .returns(VCPU, FUTEX)
        .call(VCPU, IOCTL)
        .enter()
        .halts();
    let steps = [
        (WakeUp, ""),
        (Return, "ppoll"),
        (SystemCall, "ioctl"),
        (WakeUp, ""),
        (Entry, ""),
        (Exit, "npf"),
        (Return, "ioctl"),
        (SystemCall, "futex"),
        (WakeUp, ""),
        (Return, "futex"),
        (SystemCall, "ioctl"),
        (Entry, ""),
    ];
    assert_eq!(story.steps(Traffic::NetRx), named(&steps));
}

/// As KVM on arm64 traces it: without injections and numbers of virtual CPUs.
#[test]
fn a_packet_wakes_a_halted_guest_on_arm64() {
    let text = "\
       CPU 0/KVM-101     [001] .....  1: kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xffff800080000000
       CPU 0/KVM-101     [001] d....  2: sched_switch: prev_comm=CPU 0/KVM prev_pid=101 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
            ping-300     [000] b....  3: net_dev_start_xmit: dev=tap0 queue_mapping=0 skbaddr=00000000aa
            ping-300     [000] D....  4: sched_waking: comm=vhost-100 pid=102 prio=120 target_cpu=000
            ping-300     [000] d....  5: sched_switch: prev_comm=ping prev_pid=300 prev_prio=120 prev_state=S ==> next_comm=vhost-100 next_pid=102 next_prio=120
       vhost-100-102     [000] d....  6: sched_waking: comm=CPU 0/KVM pid=101 prio=120 target_cpu=001
          <idle>-0       [001] d....  7: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=101 next_prio=120
       CPU 0/KVM-101     [001] d....  8: kvm_entry: PC: 0xffff800080000000
       CPU 0/KVM-101     [001] .....  9: kvm_exit: TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0xffff800080000000
       CPU 0/KVM-101     [001] d.... 10: kvm_entry: PC: 0xffff800080000000
       CPU 0/KVM-101     [001] ..... 11: kvm_exit: IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0xffff800080000000
       CPU 0/KVM-101     [001] d.... 12: kvm_entry: PC: 0xffff800080000000
       CPU 0/KVM-101     [001] ..... 13: kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xffff800080000000
";
    let story = Story { trace: Trace::parse(text, 1000.0) };
    assert_eq!((story.trace.events.len(), story.trace.unknown), (13, 0));
    let steps = [(WakeUp, ""), (WakeUp, ""), (Entry, ""), (Exit, "dabt_low"), (Entry, "")];
    assert_eq!(story.steps(Traffic::NetRx), named(&steps));
}
