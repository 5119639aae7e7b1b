//! Constructed traces with known causes, each of which must be named first. Times and order are as in Linux 6.1.

use kvm::events::{Context, Event, Kind, Target, Trace};
use kvm::worst::{Cause, Frozen, Kept, Latency, Watched, blame, latencies, longer, stretches};

const VCPU: u32 = 100;
const STOPPER: u32 = 20;
const HOG: u32 = 300;

struct Story {
    trace: Trace,
    now: u64,
}

impl Story {
    fn new() -> Self {
        let mut trace = Trace::default();
        for (pid, name) in [(VCPU, "CPU 0/KVM"), (STOPPER, "migration/0"), (HOG, "hog"), (7, "make")] {
            trace.names.insert(pid, name.into());
        }
        Self { trace, now: 0 }
    }

    fn event(&mut self, after: u64, pid: u32, context: Context, kind: Kind) -> &mut Self {
        self.now += after;
        self.trace.events.push(Event { time: self.now, cpu: 0, pid, context, kind });
        self
    }

    fn switch(&mut self, after: u64, previous: u32, next: u32, priority: i32) -> &mut Self {
        self.event(after, previous, Context::Task, Kind::Switch { previous, runnable: false, next, priority })
    }

    fn waking(&mut self) -> &mut Self {
        self.event(100_000, 0, Context::Interrupt, Kind::Waking { target: VCPU })
    }

    fn enter(&mut self, after: u64) -> &mut Self {
        self.event(after, VCPU, Context::Task, Kind::Entry { vcpu: 0 });
        let halt = Kind::Exit { vcpu: 0, reason: "hlt".into() };
        self.event(5_000, VCPU, Context::Task, halt).switch(1_000, VCPU, 0, 120)
    }

    /// The latency of most wake-ups.
    fn usual(&mut self, jitter: u64) -> &mut Self {
        self.waking().switch(2_000 + jitter, 0, VCPU, 120).enter(3_000)
    }

    fn frozen(&self) -> Frozen<'_> {
        Frozen { host: &self.trace, guest: None }
    }

    fn first_blame(&self, watched: Watched) -> Cause {
        let all = latencies(&self.trace, &target(), watched);
        let median = blame(&self.trace, &all[all.len() / 2]);
        longer(&blame(&self.trace, &all[all.len() - 1]), &median).remove(0).cause
    }
}

fn target() -> Target {
    Target { pid: VCPU, threads: vec![VCPU], has_vfio: false }
}

#[test]
fn the_planted_cause_is_named_first() {
    let hog = Cause::RealTimeThread(format!("hog ({HOG})"));
    // Once short and once long, each among usual ones: ten in all.
    for size in [20_000, 400_000] {
        let mut plants: Vec<(Cause, Story)> = Vec::new();
        let mut plant = |cause: &Cause, what: &dyn Fn(&mut Story)| {
            let mut story = Story::new();
            for number in 0..20 {
                story.usual(number * 10);
            }
            what(&mut story);
            for number in 0..20 {
                story.usual(number * 10);
            }
            plants.push((cause.clone(), story));
        };
        plant(&hog, &|story| {
            story.switch(50_000, 0, HOG, 49).waking().switch(size, HOG, VCPU, 120).enter(3_000);
        });
        plant(&Cause::CpuStopper, &|story| {
            story.waking().switch(1_000, 0, STOPPER, 0).switch(size, STOPPER, VCPU, 120).enter(3_000);
        });
        plant(&Cause::PageFault, &|story| {
            story.waking().switch(2_000, 0, VCPU, 120);
            story.event(500, VCPU, Context::Task, Kind::PageFault { guest: false }).enter(size);
        });
        plant(&Cause::TimerStorm, &|story| {
            story.waking().switch(2_000, 0, VCPU, 120);
            for _ in 0..20 {
                story.event(size / 20, VCPU, Context::Interrupt, Kind::Timer);
            }
            story.enter(3_000);
        });
        plant(&Cause::EmulatedDevice, &|story| {
            story.waking().switch(2_000, 0, VCPU, 120);
            let exit = Kind::UserspaceExit { reason: "mmio".into() };
            story.event(500, VCPU, Context::Task, exit);
            story.event(size, VCPU, Context::Task, Kind::SyscallEnter { number: 16 }).enter(1_000);
        });
        for (cause, story) in &plants {
            assert_eq!(story.first_blame(Watched::WakeUp), *cause, "{size} ns");
        }
    }
}

/// Something in the way, told as events.
type Plant<'a> = &'a dyn Fn(&mut Story);

/// An activity that began before the latency has its share of the time too.
#[test]
fn what_was_under_way_already_is_named() {
    let accept = || Kind::Accept { apic: 0, vector: 236 };
    let exit = |reason: &str| Kind::Exit { vcpu: 0, reason: reason.into() };
    let plants: [(Cause, Plant); 3] = [
        (Cause::EmulatedDevice, &|story| {
            story.event(500, VCPU, Context::Task, exit("io"));
            story.event(500, VCPU, Context::Task, Kind::UserspaceExit { reason: "io".into() });
            // It waits for QEMU's lock, asleep while others run.
            story.event(500, VCPU, Context::Task, Kind::SyscallEnter { number: 202 });
            story.event(
                100,
                VCPU,
                Context::Task,
                Kind::Switch { previous: VCPU, runnable: false, next: 7, priority: 120 },
            );
            story.event(500, 7, Context::Interrupt, accept());
            story.event(90_000, 7, Context::Task, Kind::Waking { target: VCPU });
            story.switch(1_000, 7, VCPU, 120).event(9_000, VCPU, Context::Task, Kind::Entry { vcpu: 0 });
        }),
        (Cause::PageFault, &|story| {
            story.event(500, VCPU, Context::Task, exit("npf"));
            story.event(100, VCPU, Context::Task, Kind::PageFault { guest: true });
            story.event(500, VCPU, Context::Interrupt, accept());
            // The page is read from a disk meanwhile.
            story.event(
                100,
                VCPU,
                Context::Task,
                Kind::Switch { previous: VCPU, runnable: false, next: 7, priority: 120 },
            );
            story.event(90_000, 7, Context::Interrupt, Kind::Waking { target: VCPU });
            story.switch(1_000, 7, VCPU, 120).event(9_000, VCPU, Context::Task, Kind::Entry { vcpu: 0 });
        }),
        (Cause::Guest, &|story| {
            // A running guest is not notified for a long time.
            story.event(100, 0, Context::Interrupt, accept());
            story.event(90_000, VCPU, Context::Task, exit("interrupt"));
            story.event(2_000, VCPU, Context::Task, Kind::Entry { vcpu: 0 });
        }),
    ];
    for (cause, plant) in plants {
        let mut story = Story::new();
        for number in 0..41 {
            story.switch(50_000, 0, VCPU, 120).event(1_000, VCPU, Context::Task, Kind::Entry { vcpu: 0 });
            if number == 20 {
                plant(&mut story);
            } else {
                story.event(5_000, VCPU, Context::Interrupt, accept());
                story.event(1_000 + number, VCPU, Context::Task, exit("interrupt"));
                story.event(2_000, VCPU, Context::Task, Kind::Entry { vcpu: 0 });
            }
            story.event(5_000, VCPU, Context::Task, exit("hlt")).switch(1_000, VCPU, 0, 120);
        }
        assert_eq!(story.first_blame(Watched::Interrupt), cause);
    }
}

/// A few ticks within a long latency are no storm.
#[test]
fn a_kernels_own_tick_is_no_storm() {
    let mut story = Story::new();
    (0..20).for_each(|number| {
        story.usual(number);
    });
    story.switch(50_000, 0, HOG, 49).waking();
    for _ in 0..10 {
        story.event(990_000, HOG, Context::Interrupt, Kind::Timer);
        story.event(10_000, HOG, Context::Interrupt, Kind::TimerExit);
    }
    story.switch(1_000, HOG, VCPU, 120).enter(3_000);
    let worst = *latencies(&story.trace, &target(), Watched::WakeUp).last().unwrap();
    let hog = Cause::RealTimeThread(format!("hog ({HOG})"));
    let [first, second, third] = &blame(&story.trace, &worst)[..] else { panic!("three causes") };
    assert_eq!((&first.cause, first.ns), (&hog, 9_901_000));
    assert_eq!((&second.cause, second.ns), (&Cause::Interrupt("timer".into()), 100_000));
    assert_eq!((&third.cause, third.ns), (&Cause::Kernel, 3_000));
}

/// If the thread was moved meanwhile, it waited for the one CPU and then for the other.
#[test]
fn a_thread_that_is_moved_waits_for_two_cpus() {
    let mut story = Story::new();
    (0..20).for_each(|number| {
        story.usual(number);
    });
    story.switch(50_000, 0, HOG, 49).waking().switch(40_000, HOG, VCPU, 120);
    story.event(
        1_000,
        VCPU,
        Context::Task,
        Kind::Switch { previous: VCPU, runnable: true, next: HOG, priority: 49 },
    );
    // On the other CPU an ordinary thread is in the way, and goes.
    let at = story.now;
    let mut on_other = |after: u64, pid: u32, kind: Kind| {
        story.trace.events.push(Event { time: at + after, cpu: 1, pid, context: Context::Task, kind });
    };
    on_other(10, 7, Kind::SyscallEnter { number: 1 });
    on_other(20_000, 7, Kind::Switch { previous: 7, runnable: true, next: VCPU, priority: 120 });
    on_other(22_000, VCPU, Kind::Entry { vcpu: 0 });
    let worst = *latencies(&story.trace, &target(), Watched::WakeUp).last().unwrap();
    let found: Vec<(String, u64)> =
        stretches(&story.trace, None, &worst).into_iter().map(|one| (one.cause.text(), one.ns)).collect();
    let expected = [
        ("real-time thread hog (300) on its CPU", 40_000),
        ("wake-up and entry in the kernel", 1_000),
        ("thread make (7) on its CPU", 20_000),
        ("wake-up and entry in the kernel", 2_000),
    ];
    assert_eq!(found, expected.map(|(cause, ns)| (cause.to_owned(), ns)));
}

/// Hours of latencies leave no more than two paths, and those are the longest one's and the median's.
#[test]
fn the_longest_and_the_median_are_kept() {
    let mut story = Story::new();
    for number in 0..40 {
        story.usual(number * 10);
    }
    let mut kept = Kept::default();
    let count = |kept: &mut Kept, story: &Story| {
        for latency in latencies(&story.trace, &target(), Watched::WakeUp) {
            kept.count(latency);
        }
    };
    count(&mut kept, &story);
    assert!(kept.is_new());
    kept.look(&story.frozen(), &target(), Watched::WakeUp);
    assert!(!kept.is_new());
    let median = kept.median_path().unwrap().latency;
    assert!(median.ns().abs_diff(kept.histogram().median_ns()) < 20, "{median:?}");

    // Later, when the recorder has forgotten the beginning.
    let mut later = Story::new();
    later.now = 1_000_000_000;
    later.usual(7_000).switch(50_000, 0, HOG, 49).waking().switch(400_000, HOG, VCPU, 120).enter(3_000);
    count(&mut kept, &later);
    assert!(kept.is_new());
    kept.look(&later.frozen(), &target(), Watched::WakeUp);
    let worst = kept.worst_path().unwrap();
    assert_eq!((worst.latency.ns(), kept.histogram().max_ns()), (403_000, 403_000));
    assert_eq!(
        longer(&worst.parts, &kept.median_path().unwrap().parts)[0].cause,
        Cause::RealTimeThread("hog (300)".into())
    );
    assert_eq!(kept.median_path().unwrap().latency, median, "one of before is nearer");
    assert_eq!(kept.histogram().count(), 42);

    // A maximum whose events were lost has no path; the one before is not shown in its place.
    kept.count(Latency { pid: VCPU, vcpu: 0, began: 5_000_000_000, ended: 5_000_900_000 });
    kept.look(&later.frozen(), &target(), Watched::WakeUp);
    assert!(kept.worst_path().is_none());
}
