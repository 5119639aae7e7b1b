//! Made-up ticks with a planted delay in each stage. Times and order follow what Linux 6.1 writes.

use clocks::{Alignment, Alignments};
use kvm::events::{Context, Event, Kind, Pid, Trace};
use kvm::worst::Cause;

use super::*;
use crate::page::{Record, Tick};

const SOURCE: Pid = 10;
const VCPU: Pid = 100;
const HOG: Pid = 300;
const INTERVAL: u64 = 1_000_000;
const VECTOR: u32 = 35;
/// The receiver's clock is that far behind the source's.
const OFFSET: u64 = 7_000_000_000;

/// The duration of each stage of a tick, ns, and the thread that preempted the virtual CPU in one.
#[derive(Clone, Copy)]
struct Lengths {
    stages: [u64; 6],
    hog: bool,
    hog_before_source: bool,
    posted: bool,
    interrupts_off: bool,
}

const USUAL: Lengths = Lengths {
    stages: [500, 1_000, 3_000, 2_000, 4_000, 1_000],
    hog: false,
    hog_before_source: false,
    posted: false,
    interrupts_off: false,
};

#[derive(Default)]
struct Story {
    trace: Trace,
    records: Vec<Record>,
    handlers: Vec<u64>,
}

impl Story {
    fn of(ticks: impl IntoIterator<Item = Lengths>) -> Self {
        let mut story = Story::default();
        for (pid, name) in [(SOURCE, "tautline"), (VCPU, "CPU 0/KVM"), (HOG, "hog")] {
            story.trace.names.insert(pid, name.into());
        }
        ticks.into_iter().for_each(|lengths| story.tick(lengths));
        story
    }

    fn event(&mut self, time: u64, cpu: u32, pid: Pid, kind: Kind) {
        self.trace.events.push(Event { time, cpu, pid, context: Context::Task, kind });
    }

    fn switch(&mut self, time: u64, cpu: u32, previous: Pid, next: Pid) {
        let priority = if next == HOG { 9 } else { 20 };
        self.event(time, cpu, previous, Kind::Switch { previous, runnable: false, next, priority });
    }

    fn tick(&mut self, lengths: Lengths) {
        let number = self.records.len() as u64 + 1;
        let due_ns = 10_000_000_000 + number * INTERVAL;
        let mut ends = due_ns;
        let [sent, irqfd, injection, handler, received, done] = lengths.stages.map(|ns| {
            ends += ns;
            ends
        });
        if lengths.hog_before_source {
            self.switch(due_ns - 10_000, 0, 0, HOG);
            self.switch(sent - 100, 0, HOG, SOURCE);
        } else {
            self.switch(due_ns - 10_000, 0, 0, SOURCE);
        }
        self.event(irqfd, 0, SOURCE, Kind::Kvm { name: "kvm_msi_set_irq".into() });
        self.event(irqfd + 100, 0, SOURCE, Kind::Accept { apic: 0, vector: VECTOR });
        self.switch(irqfd + 500, 0, SOURCE, 0);
        if lengths.hog {
            self.switch(irqfd + 200, 1, 0, HOG);
            self.switch(injection - 800, 1, HOG, VCPU);
        } else {
            self.switch(irqfd + 200, 1, 0, VCPU);
        }
        if !lengths.interrupts_off {
            // Another interrupt of the guest comes first.
            self.event(injection - 700, 1, VCPU, Kind::Inject { vector: 236 });
            self.event(injection - 600, 1, VCPU, Kind::Entry { vcpu: 0 });
        }
        if lengths.interrupts_off {
            // Entered, and left again as soon as the guest takes interrupts.
            let exit = |reason: &str| Kind::Exit { vcpu: 0, reason: reason.into() };
            self.event(injection, 1, VCPU, Kind::Entry { vcpu: 0 });
            self.event(handler - 900, 1, VCPU, exit("vintr"));
            self.event(handler - 800, 1, VCPU, Kind::Inject { vector: VECTOR });
            self.event(handler - 700, 1, VCPU, Kind::Entry { vcpu: 0 });
        } else if !lengths.posted {
            self.event(injection - 200, 1, VCPU, Kind::Inject { vector: VECTOR });
            self.event(injection, 1, VCPU, Kind::Entry { vcpu: 0 });
        }
        self.switch(done, 1, VCPU, 0);
        self.handlers.push(handler - OFFSET);
        self.records.push(Record {
            tick: Tick { number, due_ns, sent_ns: sent },
            received_ns: received - OFFSET,
            done_ns: done - OFFSET,
        });
    }

    fn merged(&mut self) -> Vec<Points> {
        self.trace.events.sort_by_key(|event| event.time);
        let alignment = Alignment { at_ns: 0, offset_ns: OFFSET as i64, error_ns: 200 };
        let alignments = Alignments { before: alignment, after: alignment };
        merge(&self.records, &alignments, &self.handlers, Some(self.host()))
    }

    fn host(&self) -> Host<'_> {
        Host { trace: &self.trace, threads: &[99, VCPU] }
    }

    fn blamed(&mut self) -> Blamed {
        let points = self.merged();
        blame(&points, &Summary::of(&points), SOURCE, Some(self.host())).unwrap()
    }
}

#[test]
fn each_stage_has_its_own_time() {
    let points = Story::of([USUAL; 40]).merged();
    let summary = Summary::of(&points);
    assert_eq!((summary.ticks, summary.complete), (40, 40));
    let found: Vec<(Stage, u64)> = summary.stages.iter().map(|times| (times.stage, times.p50_ns)).collect();
    let made: Vec<(Stage, u64)> = Stage::ALL.into_iter().zip(USUAL.stages).collect();
    assert_eq!(found, made);
    assert!(summary.stages.iter().all(|times| times.p50_ns == times.max_ns));
    assert_eq!(points[0].latency_ns(), USUAL.stages[..5].iter().sum::<u64>());
}

#[test]
fn a_planted_delay_is_blamed_on_its_stage() {
    let hog = Cause::RealTimeThread(format!("hog ({HOG})"));
    for size in [20_000, 400_000] {
        // The timer late, the irqfd delayed, the virtual CPU preempted, another of the guest's handlers slow (with
        // interrupts off), the receiver's priority low.
        for (at, stage) in Stage::ALL[..5].iter().enumerate() {
            let mut planted = USUAL;
            planted.stages[at] += size;
            planted.hog = *stage == Stage::Injection;
            planted.hog_before_source = *stage == Stage::Sent;
            planted.interrupts_off = *stage == Stage::Handler;
            let ticks = [[USUAL; 20].as_slice(), &[planted], &[USUAL; 20]].concat();
            let blamed = Story::of(ticks).blamed();
            assert_eq!((blamed.number, blamed.stages.first()), (21, Some(&(*stage, size))), "{blamed:?}");
            if planted.hog || planted.hog_before_source {
                assert_eq!(blamed.parts[0].cause, hog, "{blamed:?}");
            }
        }
    }
}

/// If the CPU delivers interrupts by itself, there are no injections.
#[test]
fn interrupts_that_the_cpu_delivers_are_complete_too() {
    let posted = Lengths { posted: true, ..USUAL };
    let summary = Summary::of(&Story::of([posted; 10]).merged());
    assert_eq!((summary.ticks, summary.complete), (10, 10));
    assert_eq!(summary.times(Stage::Injection).unwrap().p50_ns, USUAL.stages[2] - 600);
}

#[test]
fn what_the_trace_lost_is_incomplete_and_what_has_no_trace_has_fewer_stages() {
    let mut story = Story::of([USUAL; 100]);
    let second = story.records[1].tick;
    story
        .trace
        .events
        .retain(|event| event.time < second.due_ns || event.time > second.due_ns + INTERVAL / 2);
    let summary = Summary::of(&story.merged());
    assert_eq!((summary.ticks, summary.complete), (100, 99));

    let alignment = Alignment { at_ns: 0, offset_ns: OFFSET as i64, error_ns: 0 };
    let alignments = Alignments { before: alignment, after: alignment };
    let points = merge(&story.records, &alignments, &[], None);
    let summary = Summary::of(&points);
    let stages: Vec<Stage> = summary.stages.iter().map(|times| times.stage).collect();
    assert_eq!((stages, summary.complete), (vec![Stage::Sent, Stage::Receiver, Stage::Work], 100));
    assert_eq!(summary.times(Stage::Receiver).unwrap().p50_ns, 10_000);
    let blamed = blame(&points, &summary, SOURCE, None).unwrap();
    assert!(blamed.parts.is_empty());
    assert_eq!(blame(&[], &Summary::of(&[]), SOURCE, None), None);
    assert_eq!(Summary::of(&[]).complete_share(), 0.0);
}

/// The receiver was awake for the tick before, and found this one before its interrupt had come.
#[test]
fn a_tick_that_was_found_early_waited_for_nothing_after_that() {
    let mut story = Story::of([USUAL; 3]);
    let tick = story.records[1].tick;
    story.records[1].received_ns = tick.sent_ns + 1_500 - OFFSET;
    story.records[1].done_ns = story.records[1].received_ns + 300;
    let points = story.merged()[1];
    let found = Stage::ALL.map(|stage| points.ns(stage).unwrap());
    assert_eq!(found, [500, 1_000, 500, 0, 0, 300]);
}
