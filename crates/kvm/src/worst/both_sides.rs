//! Constructed traces of a host and its guest: from an interrupt to the guest's user space.

use super::*;
use crate::events::{Context, Event, Kind, Pid, Target, Trace};

const VCPU: Pid = 100;
const HOG: Pid = 300;
/// Threads of the guest.
const SLEEPER: Pid = 42;
const GUEST_HOG: Pid = 43;

#[derive(Default)]
struct Story {
    host: Trace,
    guest: Trace,
    now: u64,
}

impl Story {
    fn host(&mut self, after: u64, pid: Pid, context: Context, kind: Kind) -> &mut Self {
        self.now += after;
        self.host.events.push(Event { time: self.now, cpu: 3, pid, context, kind });
        self
    }

    fn guest(&mut self, after: u64, pid: Pid, context: Context, kind: Kind) -> &mut Self {
        self.now += after;
        self.guest.events.push(Event { time: self.now, cpu: 0, pid, context, kind });
        self
    }

    fn host_switch(&mut self, after: u64, [previous, next]: [Pid; 2], runnable: bool) -> &mut Self {
        let priority = if next == HOG { 49 } else { 120 };
        self.host(after, previous, Context::Task, Kind::Switch { previous, runnable, next, priority })
    }

    fn guest_switch(&mut self, after: u64, [previous, next]: [Pid; 2]) -> &mut Self {
        let kind = Kind::Switch { previous, runnable: true, next, priority: 120 };
        self.guest(after, previous, Context::Task, kind)
    }

    fn enter(&mut self, after: u64) -> &mut Self {
        self.host(after, VCPU, Context::Task, Kind::Entry { vcpu: 0 })
    }

    fn exit(&mut self, after: u64, reason: &str) -> &mut Self {
        self.host(after, VCPU, Context::Task, Kind::Exit { vcpu: 0, reason: reason.into() })
    }

    /// A timer wakes the halted virtual CPU, and that its guest's thread; `on_the_way` comes before the thread runs.
    fn tick(&mut self, on_the_way: &dyn Fn(&mut Self)) {
        self.host(100_000, 0, Context::Interrupt, Kind::Accept { apic: 0, vector: 236 });
        self.host(500, 0, Context::Interrupt, Kind::Waking { target: VCPU }).host_switch(
            2_000,
            [0, VCPU],
            true,
        );
        self.host(1_000, VCPU, Context::Task, Kind::Inject { vector: 236 }).enter(500);
        self.guest(800, 0, Context::Interrupt, Kind::Timer);
        self.guest(400, 0, Context::Interrupt, Kind::Waking { target: SLEEPER });
        self.guest(300, 0, Context::Interrupt, Kind::TimerExit);
        on_the_way(self);
        self.guest_switch(700, [0, SLEEPER]);
        self.guest(900, SLEEPER, Context::Task, Kind::SyscallExit { number: 230 });
        self.guest_switch(5_000, [SLEEPER, 0]).exit(300, "hlt").host_switch(800, [VCPU, 0], false);
    }
}

fn target() -> Target {
    Target { pid: VCPU, threads: vec![VCPU], has_vfio: false }
}

#[test]
fn what_was_planted_on_either_side_is_named() {
    type Plant<'a> = (Cause, &'a dyn Fn(&mut Story));
    let plants: [Plant<'_>; 4] = [
        (Cause::GuestThread(format!("make ({GUEST_HOG})")), &|story| {
            story.guest_switch(100, [0, GUEST_HOG]).guest_switch(80_000, [GUEST_HOG, 0]);
        }),
        (Cause::GuestInterrupt("softirq NET_RX".into()), &|story| {
            let entry = Kind::SoftirqEntry { action: "NET_RX".into() };
            story.guest(100, 0, Context::Softirq, entry);
            story.guest(80_000, 0, Context::Softirq, Kind::SoftirqExit);
        }),
        (Cause::RealTimeThread(format!("hog ({HOG})")), &|story| {
            story.exit(200, "interrupt").host_switch(500, [VCPU, HOG], true);
            story.host_switch(80_000, [HOG, VCPU], true).enter(900);
        }),
        // Memory that was swapped out: the virtual CPU sleeps until it is there again.
        (Cause::PageFault, &|story| {
            story.exit(200, "npf").host(100, VCPU, Context::Task, Kind::PageFault { guest: true });
            story.host_switch(500, [VCPU, 0], false);
            story.host(80_000, 0, Context::Interrupt, Kind::Waking { target: VCPU });
            story.host_switch(900, [0, VCPU], true).enter(900);
        }),
    ];
    for (cause, plant) in plants {
        let mut story = Story::default();
        for (pid, name) in [(VCPU, "CPU 0/KVM"), (HOG, "hog")] {
            story.host.names.insert(pid, name.into());
        }
        for (pid, name) in [(SLEEPER, "sleep"), (GUEST_HOG, "make")] {
            story.guest.names.insert(pid, name.into());
        }
        for number in 0..31 {
            story.tick(if number == 15 { plant } else { &|_| {} });
        }
        let fit = Fit::of(&story.host, &story.guest, &[(VCPU, 0)].into()).unwrap();
        assert!(fit.early_ns() == 0 && fit.error_ns() < 100_000, "{fit:?}");

        // As both sides tell it while it happens.
        let mut kept = Kept::default();
        let mut follower = Follower::new(Watched::Interrupt, &target());
        let delivered: Vec<Latency> =
            story.host.events.iter().filter_map(|event| follower.follow(event)).collect();
        let mut inside = guest::GuestFollower::default();
        let arrivals: Vec<Arrival> =
            story.guest.events.iter().filter_map(|event| inside.follow(event)).collect();
        assert_eq!(arrivals.len(), 31);
        joined(&delivered, &arrivals, fit.early_ns()).into_iter().for_each(|one| kept.count(one));
        // The virtual CPU is known as one from its first entry on.
        assert_eq!(kept.histogram().count(), 30);

        let all = [Span { from: 0, until: u64::MAX }];
        let guest = GuestSide { trace: &story.guest, early_ns: fit.early_ns(), spans: &all };
        let frozen = Frozen { host: &story.host, guest: Some(guest) };
        kept.look(&frozen, &target(), Watched::UserSpace);
        let (worst, median) = (kept.worst_path().unwrap(), kept.median_path().unwrap());
        assert_eq!(longer(&worst.parts, &median.parts)[0].cause, cause);
        // Each stretch has its side, and all of them are the latency.
        assert_eq!(median.stretches.iter().map(|one| one.ns).sum::<u64>(), median.latency.ns());
        let causes: Vec<String> = median.stretches.iter().map(|one| one.cause.text()).collect();
        assert_eq!(
            causes,
            [
                "wake-up and entry in the kernel",
                "the guest's own code: it ran on, or had interrupts off",
                "in the guest: timer",
                "the guest's own code: it ran on, or had interrupts off",
                "in the guest: thread sleep (42)",
            ]
        );
    }
}
