use virtqueue::RingLayout;

use super::*;

fn tuner(layout: RingLayout) -> DemotionTuner {
    DemotionTuner::new(QueueSize::new(layout, 256).unwrap(), layout == RingLayout::Split)
}

/// A tuner for a processor that has both policies; `None`, with a message, if this processor lacks one.
fn able(layout: RingLayout) -> Option<DemotionTuner> {
    let tuner = tuner(layout);
    let able = tuner.policies[1..3].iter().all(Option::is_some);
    if !able {
        println!("this processor cannot demote single lines: nothing to choose");
    }
    able.then_some(tuner)
}

fn written_back() -> Option<DemotionPolicy> {
    Demotion::write_back().map(DemotionPolicy::Frames)
}

fn evicted() -> Option<DemotionPolicy> {
    Demotion::evict().map(DemotionPolicy::Frames)
}

fn burst(tuner: &mut DemotionTuner, idle: bool) {
    if idle {
        tuner.polled(0);
    }
    tuner.polled(32);
}

/// One comparison in which chains took these nanoseconds, by policy, while the device was idle.
fn found<const N: usize>(tuner: &mut DemotionTuner, took: [u64; N]) {
    tuner.took = std::array::from_fn(|policy| took.get(policy).map(|ns| ns * 1000));
    tuner.idle_without = true;
    tuner.judge();
    tuner.phase = tuner.use_best();
}

#[test]
fn most_of_the_latest_comparisons_decide() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    let (near, far) = ([70, 50, 80], [140, 140, 110]);
    (0..Votes::LATEST).for_each(|_| found(&mut tuner, near));
    assert_eq!(tuner.current, None, "as many against it as for it");
    found(&mut tuner, near);
    assert_eq!(tuner.current, written_back());
    (0..100).for_each(|_| found(&mut tuner, near));
    // An interrupt in one of them is no move.
    found(&mut tuner, [70, 500, 80]);
    assert_eq!(tuner.current, written_back());
    (0..=Votes::LATEST).for_each(|_| found(&mut tuner, far));
    assert_eq!(tuner.current, evicted());
    // A change that gains almost nothing is not made.
    (0..=2 * Votes::LATEST).for_each(|_| found(&mut tuner, [96, 97, 96]));
    assert_eq!(tuner.current, None);
}

/// DPDK 26.07's driver on a packed ring gains a fifteenth: half of the comparisons find more, half of them less.
#[test]
fn a_gain_near_the_limit_is_kept_once_it_is_taken() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    (0..=Votes::LATEST).for_each(|_| found(&mut tuner, [300, 270, 550]));
    for i in 0..100 {
        found(&mut tuner, [300, if i % 2 == 0 { 280 } else { 284 }, 550]);
        assert_eq!(tuner.current, written_back());
    }
    assert_eq!(tuner.interval, STABLE_INTERVAL, "nothing speaks against it");
    (0..=Votes::LATEST).for_each(|_| found(&mut tuner, [300, 301, 550]));
    assert_eq!(tuner.current, None, "it helps no more");
    (0..100).for_each(|_| found(&mut tuner, [300, 290, 550]));
    assert_eq!(tuner.current, None, "too little to begin with");
}

#[test]
fn comparisons_become_rare_where_they_agree_and_frequent_where_they_do_not() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    (0..5 * Votes::LATEST).for_each(|_| found(&mut tuner, [100, 70, 90]));
    assert_eq!(tuner.interval, STABLE_INTERVAL);
    // The cores have moved apart.
    found(&mut tuner, [140, 140, 110]);
    assert_eq!(tuner.interval, UNSTABLE_INTERVAL);
    (0..5 * Votes::LATEST).for_each(|_| found(&mut tuner, [140, 140, 110]));
    assert_eq!((tuner.current, tuner.interval), (evicted(), STABLE_INTERVAL));
}

#[test]
fn of_two_that_help_the_better_one_is_taken() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    (0..=2 * Votes::LATEST).for_each(|_| found(&mut tuner, [100, 70, 90]));
    assert_eq!(tuner.current, written_back());
    (0..=Votes::LATEST).for_each(|_| found(&mut tuner, [100, 90, 70]));
    assert_eq!(tuner.current, evicted());
    (0..=Votes::LATEST).for_each(|_| found(&mut tuner, [100, 70, 90]));
    assert_eq!(tuner.current, written_back());
}

#[test]
fn a_driver_that_has_nothing_to_send_says_nothing() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    (0..=2 * Votes::LATEST).for_each(|_| found(&mut tuner, [70, 50, 80]));
    let votes = tuner.votes;
    (0..100).for_each(|_| found(&mut tuner, [5000, 50, 50]));
    (0..100).for_each(|_| found(&mut tuner, [70, 70, 5000]));
    assert_eq!(tuner.votes, votes);
}

#[test]
fn each_policy_has_as_many_laps() {
    // Only kinds that are tried count: packed rings have no lines of descriptors alone, and frames are left alone where
    // the driver is ahead.
    let cases = [
        (RingLayout::Packed, true, [1, 1, 1, 0]),
        (RingLayout::Split, true, [1; POLICIES]),
        (RingLayout::Split, false, [1, 0, 0, 1]),
    ];
    for (layout, idle, tried) in cases {
        let Some(mut tuner) = able(layout) else { return };
        let (mut changing, mut timed, mut began) = ([0; POLICIES], [0; POLICIES], [0; POLICIES]);
        let policies: u32 = tried.iter().sum();
        // Beginning twice with each.
        let mut left = 2 * policies;
        let mut using = true;
        while left > 0 {
            match tuner.phase {
                Phase::Using => left -= u32::from(!using),
                Phase::Settling(policy) => {
                    began[policy] += u32::from(using);
                    changing[policy] += 1;
                }
                Phase::Sampling(policy, _) => timed[policy] += 1,
            }
            using = matches!(tuner.phase, Phase::Using);
            if let Phase::Settling(policy) | Phase::Sampling(policy, _) = tuner.phase {
                assert_eq!(tuner.current, tuner.policies[policy]);
            }
            // No comparison of these is to count: as long as it lasts, all disagree.
            tuner.votes[1][0] = Votes::of(-1);
            burst(&mut tuner, idle);
        }
        let laps = |each: u32| tried.map(|tried| 2 * policies * 8 * tried * each);
        assert_eq!((changing, timed), (laps(SETTLE_LAPS), laps(SAMPLE_LAPS)), "{layout:?}");
        assert_eq!(began, tried.map(|tried| 2 * tried), "{layout:?}");
    }
}

/// Demoting descriptors helps whether or not the device is idle. Only one kind of line is demoted at a time.
#[test]
fn descriptors_are_demoted_where_that_is_better() {
    let Some(mut tuner) = able(RingLayout::Split) else { return };
    let evict = Demotion::evict();
    let ahead = |tuner: &mut DemotionTuner, took: [Option<u64>; POLICIES]| {
        tuner.took = took.map(|took| took.map(|ns| ns * 1000));
        tuner.idle_without = false;
        tuner.judge();
        tuner.phase = tuner.use_best();
        burst(tuner, false);
    };
    (0..=Votes::LATEST).for_each(|_| ahead(&mut tuner, [Some(140), None, None, Some(110)]));
    assert_eq!((tuner.descriptors(), tuner.frames()), (evict, None));
    // Frames too, where the device is idle and that is better still.
    (0..=2 * Votes::LATEST).for_each(|_| found(&mut tuner, [140, 140, 90, 110]));
    burst(&mut tuner, true);
    assert_eq!((tuner.descriptors(), tuner.frames()), (evict, evict));
    burst(&mut tuner, false);
    (0..IDLE_BURSTS).for_each(|_| burst(&mut tuner, false));
    assert_eq!((tuner.descriptors(), tuner.frames()), (None, None));
    // Where the device is busy, that says nothing for frames.
    (0..=2 * Votes::LATEST).for_each(|_| ahead(&mut tuner, [Some(140), Some(140), Some(90), Some(138)]));
    assert_eq!((tuner.current, tuner.descriptors()), (None, None));
}

#[test]
fn nothing_is_compared_where_the_driver_is_ahead() {
    let mut tuner = tuner(RingLayout::Packed);
    for i in 0..8 * 10 * STABLE_INTERVAL {
        burst(&mut tuner, i % (2 * u32::from(IDLE_BURSTS)) == 0);
        assert!(matches!(tuner.phase, Phase::Using));
    }
}

/// When a driver no longer leaves the device idle, the policy that was found for it ends.
#[test]
fn nothing_is_demoted_for_long_where_the_driver_is_ahead() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    (0..=2 * Votes::LATEST).for_each(|_| found(&mut tuner, [70, 50, 80]));
    // Some comparisons more than it takes: one in which this thread was interrupted says nothing.
    let comparison = POLICIES as u32 * (SETTLE_LAPS + SAMPLE_LAPS);
    let bursts = 8 * (2 * STABLE_INTERVAL + 20 * (2 * UNSTABLE_INTERVAL + comparison));
    for _ in 0..bursts {
        burst(&mut tuner, false);
    }
    assert!(!tuner.votes[1][0].is_for());
}

#[test]
fn lines_are_demoted_only_when_there_is_time_to_spare() {
    let Some(mut tuner) = able(RingLayout::Packed) else { return };
    (0..=2 * Votes::LATEST).for_each(|_| found(&mut tuner, [70, 50, 80]));
    tuner.polled(1);
    assert_eq!(tuner.frames(), None, "the driver was ahead");
    tuner.polled(0);
    for _ in 0..IDLE_BURSTS {
        tuner.polled(1);
        assert_eq!(tuner.frames(), Demotion::write_back());
    }
    tuner.polled(1);
    assert_eq!(tuner.frames(), None);
}

#[test]
fn what_is_pinned_is_never_compared() {
    for policy in [None, written_back(), evicted(), Demotion::evict().map(DemotionPolicy::Descriptors)] {
        let mut tuner = DemotionTuner::pinned(QueueSize::new(RingLayout::Split, 1).unwrap(), policy);
        for i in 0..10 * STABLE_INTERVAL {
            burst(&mut tuner, i % 2 == 0);
            assert!(matches!(tuner.phase, Phase::Using));
            assert_eq!(tuner.current, policy);
        }
    }
}
