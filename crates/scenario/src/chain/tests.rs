//! Two members, one on each end of a pair of ports in memory.

use std::thread;

use port::in_memory::InMemory;

use super::{Job, Outcome, run};
use crate::Description;
use crate::description::{BUILT_IN, Work};

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
    let last = thread::spawn(move || run(Box::new(other), &last).unwrap());
    let first = run(Box::new(one), &first).unwrap();
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
    // Of some users the first bits of a scrambled block look like those of a first segment.
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
    let error = run(Box::new(one), &job).unwrap_err().to_string();
    assert!(error.contains("core: waiting for the first tick"), "{error}");
}
