//! Two members, one on each end of a pair of ports in memory.

use std::thread;
use std::time::Duration;

use port::in_memory::InMemory;

use super::frame::{self, Frame, TickEnd};
use super::link::Link;
use super::{Job, Outcome, run};
use crate::Description;
use crate::description::{BUILT_IN, Work};

/// The clock of one machine.
fn same(ns: u64) -> u64 {
    ns
}

fn both(ticks: u64) -> (Outcome, Outcome) {
    let mut description = Description::parse(BUILT_IN[0].1).unwrap();
    description.members.retain(|member| matches!(member.work, Work::RadioUnit | Work::Core));
    let job = |place| Job {
        description: description.clone(),
        place,
        ticks,
        cpus: Vec::new(),
        priority: None,
        silence_ms: 20_000,
    };
    let (one, other) = InMemory::pair(1, Default::default()).unwrap();
    let (first, last) = (job(0), job(1));
    let last = thread::spawn(move || run(Box::new(other), &last, &same).unwrap());
    let first = run(Box::new(one), &first, &same).unwrap();
    (first, last.join().unwrap())
}

/// A core that gets blocks straight from the radio unit can make no sense of them; it says so for each.
#[test]
fn ticks_frames_and_what_is_refused_are_counted() {
    let (first, last) = both(50);
    let ended = last.ended.unwrap();
    assert_eq!((first.ticks, first.sent, first.dropped), (50, 400, 0));
    assert_eq!((last.ticks, last.received, last.announced), (50, 400, 400));
    assert_eq!((ended.in_time, ended.late, ended.incomplete), (0, 0, 50));
    // For some users, the first bits of a scrambled block look like those of a first segment.
    assert!((200..=400).contains(&last.refused), "{}", last.refused);
    let names: Vec<_> = ended.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["radio unit", "to core", "core"]);
    assert!(ended.stages.iter().all(|stage| stage.time.count() == 50));
}

#[test]
fn a_member_whose_neighbour_never_comes_says_so() {
    let description = Description::parse(BUILT_IN[0].1).unwrap();
    let job = Job { description, place: 3, ticks: 1, cpus: Vec::new(), priority: None, silence_ms: 50 };
    let (one, _other) = InMemory::pair(1, Default::default()).unwrap();
    let error = run(Box::new(one), &job, &same).unwrap_err().to_string();
    assert!(error.contains("core: waiting for the first tick"), "{error}");
}

/// A guest's kernel also sends frames, which a switch floods to all ports if it does not know their receivers.
#[test]
fn frames_of_others_are_passed_over() {
    let mut description = Description::parse(BUILT_IN[0].1).unwrap();
    description.members.retain(|member| matches!(member.work, Work::RadioUnit | Work::Core));
    let job = Job { description, place: 1, ticks: 1, cpus: Vec::new(), priority: None, silence_ms: 20_000 };
    let (one, other) = InMemory::pair(1, Default::default()).unwrap();
    let last = thread::spawn(move || run(Box::new(other), &job, &same));
    let mut link = Link::start(Box::new(one)).unwrap();
    let [mut end_of_tick, mut end] = [Vec::new(), Vec::new()];
    frame::write(0, 1, &Frame::TickEnd(TickEnd { tick: 1, ..TickEnd::default() }), &mut end_of_tick);
    frame::write(0, 1, &Frame::End, &mut end);
    // A router solicitation's destination (RFC 2464 §7), and its EtherType.
    let foreign = [&[0x33, 0x33, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9, 0x86, 0xdd][..], &[0; 50]].concat();
    // One by one: the member has taken each before the next one comes.
    for frame in [&foreign, &end_of_tick, &foreign, &end] {
        link.put(frame).unwrap();
        link.flush().unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let outcome = last.join().unwrap().unwrap();
    assert_eq!((outcome.ticks, outcome.ended.unwrap().incomplete), (1, 1));
}
