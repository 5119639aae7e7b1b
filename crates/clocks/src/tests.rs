use std::time::Duration;

use proptest::prelude::*;

use crate::{Alignment, Alignments, Answering, EXCHANGE_BYTES, Exchange, FarClock, now_ns};

fn at(at_ns: u64, offset_ns: i64, error_ns: u64) -> Alignment {
    Alignment { at_ns, offset_ns, error_ns }
}

#[test]
fn clocks_run_apart_evenly_between_two_alignments() {
    let both = Alignments { before: at(1000, -500, 7), after: at(2000, -400, 9) };
    assert_eq!([1000, 1500, 2000].map(|ns| both.of_source(ns)), [500, 1050, 1600]);
    assert_eq!(both.of_source(900), 400, "before the first, its offset holds");
    assert_eq!(both.error_ns(), 9);
    let same = Alignments { before: both.before, after: both.before };
    assert_eq!(same.of_source(5000), 4500);
}

fn ends() -> (Exchange, Exchange) {
    let memory = memory::sealed_memfd(c"clocks", 64 + EXCHANGE_BYTES).unwrap();
    (Exchange::map(&memory, 64).unwrap(), Exchange::map(&memory, 64).unwrap())
}

/// One clock at both ends: nothing is found between them, within the error that is stated.
#[test]
fn the_same_clock_is_found_to_be_the_same() {
    let (asks, answers) = ends();
    let answering = Answering::start(answers).unwrap();
    let found = Alignment::find(&asks).unwrap();
    assert!(found.offset_ns.unsigned_abs() <= found.error_ns, "{found:?}");
    let far = FarClock::find(&asks).unwrap();
    let error_ns = far.error_ns(&asks).unwrap();
    let now = now_ns();
    // The error of the rate is the sum of both alignments' errors, over half a second; the last moments are a part of
    // that.
    assert!(far.far_ns(now).abs_diff(now) <= 3 * error_ns + 1_000_000, "{far:?}, {error_ns} ns");
    drop(answering);
    assert_eq!(Alignment::find_until(&asks, now_ns() + 1_000_000), None, "nobody answers any more");
}

#[test]
fn who_is_not_asked_answers_nothing() {
    let (asks, answers) = ends();
    assert!(!answers.answer());
    let asked = std::thread::spawn(move || Alignment::find_until(&asks, now_ns() + 5_000_000_000).is_some());
    while !answers.answer() {
        std::thread::sleep(Duration::from_micros(100));
    }
    while !asked.is_finished() {
        answers.answer();
    }
    assert!(asked.join().unwrap());
    assert!(!answers.answer());
}

proptest! {
    /// For a clock that starts elsewhere and runs at another rate, the extrapolation is within the stated error, and
    /// the stated error is not less than the error of the alignments.
    #[test]
    fn a_far_clock_goes_on_as_it_ran(
        start in 0..1u64 << 40, apart in -1i64 << 50..1i64 << 50, rate_ppm in -300.0f64..300.0,
        errors in prop::array::uniform3(-2_000i64..2_000), later in 0..4_000_000_000u64,
    ) {
        let start = start + (1 << 50);
        let truth = |near_ns: u64| apart + ((near_ns - start) as f64 * rate_ppm / 1e6).round() as i64;
        let found = |near_ns: u64, error: i64| at(near_ns, truth(near_ns) + error, error.unsigned_abs());
        let half_s = 500_000_000;
        let far = FarClock::of(found(start, errors[0]), found(start + half_s, errors[1]));
        let near_ns = start + half_s + later;
        let off_ns = far.far_ns(near_ns).abs_diff(near_ns.saturating_add_signed(truth(near_ns)));
        // Whole nanoseconds are as good as an error of one each.
        let error = |n: usize| errors[n].unsigned_abs() as f64 + 1.0;
        let most = 1.0 + error(1) + (error(0) + error(1)) * later as f64 / half_s as f64;
        prop_assert!(off_ns as f64 <= most, "{off_ns} of {most}");
        prop_assert!(far.error_by(found(near_ns, errors[2])) + 1 >= off_ns, "{off_ns}");
    }

    /// The other end may answer anything.
    #[test]
    fn no_answer_makes_it_panic(offsets: [i64; 3], times: [u32; 3], near: u64) {
        let [one, two, three] = [0, 1, 2].map(|n| at(u64::from(times[n]), offsets[n], 9));
        let far = FarClock::of(one, two);
        far.far_ns(near);
        far.error_by(three);
        Alignments { before: one, after: two }.of_source(near);
    }
}
