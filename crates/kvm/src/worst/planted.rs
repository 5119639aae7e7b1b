//! Made-up traces with planted causes: each is to be named first. Times and order follow what Linux 6.1 writes.

use super::super::{Watched, latencies};
use super::*;
use crate::events::{Event, Target};

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

    /// As most are.
    fn usual(&mut self, jitter: u64) -> &mut Self {
        self.waking().switch(2_000 + jitter, 0, VCPU, 120).enter(3_000)
    }

    fn first_blame(&self) -> Cause {
        let target = Target { pid: VCPU, threads: vec![VCPU], has_vfio: false };
        let all = latencies(&self.trace, &target, Watched::WakeUp);
        let median = blame(&self.trace, &all[all.len() / 2]);
        longer(&blame(&self.trace, &all[all.len() - 1]), &median).remove(0).cause
    }
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
            assert_eq!(story.first_blame(), *cause, "{size} ns");
        }
    }
}
