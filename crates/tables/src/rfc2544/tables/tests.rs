use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use measure::Histogram;

use traffic::results::{Maximum, MaximumTrial, SCHEMA};
use traffic::search::rfc2544::{BackToBackPlan, Burst, FrameLossPlan, Step, back_to_back};
use traffic::search::{Budget, Fraction, Measured, SearchRange, TrialResult, Verification, mlr, run};

use super::*;

/// The result of a device that buffers 400 frames and drains them at 600,000 frames per second.
fn device(frames: u64, rate: Load) -> Result<Measured, Box<dyn Error>> {
    let sending = rate.time_for(frames);
    let drained = Load::new(600_000).unwrap().frames_in(sending);
    Ok(Measured::Valid(TrialResult::new(frames, frames.min(400 + drained), sending)?))
}

fn example_run() -> Result<Run, Box<dyn Error>> {
    let (load, share) = (|fps| Load::new(fps).unwrap(), |of| Fraction::from_percent(of).unwrap());
    let (budget, trial) = (Budget::default(), Duration::from_secs(60));
    let goal = |loss| mlr::Goal::new(trial, trial * 2, loss, Fraction::HALF, share(1.0));
    let range = SearchRange::new(load(1000), load(1_000_000)).unwrap();
    let plan = mlr::Plan { range, goals: vec![goal(Fraction::ZERO)?, goal(share(0.5))?] };
    let of_trial = |load: Load, duration: Duration| device(load.frames_in(duration), load);
    let search = SearchResult::Mlr { outcome: run(&plan, &budget, of_trial, |_| ())? };
    let walk = FrameLossPlan { max: load(1_000_000), step: Step::COARSEST, trial };
    let bursts = BackToBackPlan {
        max_rate: load(1_000_000),
        throughput: load(600_000),
        max_burst: Burst::new(1_000_000).unwrap(),
        first_burst: Burst::new(64),
        width: Fraction::ZERO,
        verification: Verification::NONE,
        repeats: NonZeroU32::new(3).unwrap(),
    };
    let of_burst = |burst: Burst, rate| device(burst.frames(), rate);
    let mut of_latency = Histogram::new();
    of_latency.record_many_ns(10_000, 99);
    of_latency.record_many_ns(50_000, 1);
    let latency = |percent_of_throughput, histogram| Latency {
        percent_of_throughput,
        load_fps: 300_000,
        histogram,
        generator: Histogram::new(),
        lost: 0,
        unsent: 3,
        invalid: 8,
        disturbed: false,
    };
    let slow = MaximumTrial { received_fps: 6e5, taken_fps: 6e5, generator_idle: 0.5, disturbed: true };
    let size = SizeResult {
        frame_bytes_with_fcs: "64".to_owned(),
        mean_frame_bytes_with_fcs: 64.0,
        mean_frame_bytes_at_layer_1: 84.0,
        loopback_fps: 7e5,
        maximum: Maximum::of(vec![slow]).unwrap(),
        most_fps: 1_000_000,
        generator_kept_less: true,
        search,
        latency: vec![latency(50, Some(of_latency)), latency(90, None)],
        frame_loss: Some(run(walk, &budget, of_trial, |_| ())?),
        back_to_back: Some(Bursts::Made { outcome: back_to_back(bursts, &budget, of_burst, |_| ())? }),
    };
    Ok(Run {
        schema: SCHEMA.to_owned(),
        tautline: String::new(),
        started: String::new(),
        elapsed_s: 0.0,
        complete: true,
        host: ::measure::host_facts::HostFacts::gather(),
        command: Vec::new(),
        ports: Vec::new(),
        labels: Vec::new(),
        quick: true,
        maximum_trial_ns: 1_000_000_000,
        latency_trial_ns: 1_000_000_000,
        sizes: vec![size],
        unfinished: None,
    })
}

#[test]
fn what_is_known_of_a_device_is_what_its_tables_say() {
    let mut run = example_run().unwrap();
    let find = |tables: &[Table], title: &str| {
        let at = tables.iter().position(|table| table.title == title);
        let table = &tables[at.unwrap_or_else(|| panic!("no table {title}"))];
        assert!(table.rows.iter().all(|row| row.len() == table.headings.len()), "{title}");
        (table.rows.clone(), table.notes.join("\n"))
    };
    let tables = of(&run);
    let (rates, notes) = find(&tables, "Rates");
    assert_eq!((rates[0][1].as_str(), rates[0][6].as_str()), ("0.600!", "device"));
    for said in ["too close", "kept no more than 1.000 Mpps", "! the generator was preempted"] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    let (at, notes) = find(&tables, "Latency");
    let known = ["64", "50 %", "0.300", "10.0", "10.0", "50.0", "100 in 1.00 s", "0 / 3", "8"];
    let late = ["64", "90 %", "0.300", "generator late", "", "", "", "0 / 3", "8"];
    assert_eq!(
        at,
        [known, late].map(|row| row.map(str::to_owned)),
        "a late generator's figures are not shown"
    );
    assert!(notes.contains("generator late: in every trial"), "{notes}");
    let (goals, _) = find(&tables, "MLRsearch goals");
    assert_eq!(goals.len(), 2);
    for (goal, loss) in goals.iter().zip(["0 %", "0.500 %"]) {
        let bound = |at: usize| goal[at].parse::<f64>().unwrap();
        assert_eq!(goal[1], loss);
        assert!(bound(2) < bound(3) && bound(4) <= bound(2) && (0.59..0.61).contains(&bound(4)), "{goal:?}");
    }
    let (walk, _) = find(&tables, "Frame loss rate");
    let lost: Vec<&str> = walk.iter().map(|row| row[4].as_str()).collect();
    assert_eq!(lost, ["40.0", "33.3", "25.0", "14.3", "0", "0"]);
    let (bursts, notes) = find(&tables, "Back-to-back");
    // 400 / 0.4 frames in a millisecond, of which 600 µs' worth was forwarded meanwhile.
    let expected = ["64", "3", "1000", "1000", "1000", "0.0", "1.000", "1000.0", "400.0"];
    assert_eq!(bursts, [expected.map(str::to_owned)]);
    assert!(notes.contains("Quick: shorter bursts"), "{notes}");
    run.labels = vec!["software: TAP".to_owned()];
    assert_eq!(find(&of(&run), "Rates").0[0][6], "not told");
}

#[test]
fn a_little_loss_is_not_printed_as_none() {
    let printed = [0.0, 1e-9, 0.000_4, 0.005, 0.123, 1.0].map(percent);
    assert_eq!(printed, ["0", "1.0e-7", "0.040", "0.500", "12.3", "100.0"]);
}

#[test]
fn a_run_ends_with_a_line_for_each_size() -> Result<(), Box<dyn Error>> {
    use crate::rfc2544::in_short::lines;
    let mut run = example_run()?;
    let [heading, line] = &lines(&run)[..] else { panic!() };
    assert_eq!(heading, "\nIn short");
    for words in
        ["64 bytes: throughput 0.597 Mpps, of 0.600 Mpps", " at most, limited by the device", "disturbed"]
    {
        assert!(line.contains(words), "{words}: {line}");
    }
    let latency = "; latency at 50 % of it 10.0 µs in the median, 99 % within 10.0 µs";
    assert!(line.contains(latency), "the one that the generator was in time for: {line}");
    run.labels.push(SOFTWARE_TAP.into());
    assert!(!lines(&run)[1].contains("limited"), "{:?}", lines(&run));
    run.sizes.clear();
    assert!(lines(&run).is_empty());
    Ok(())
}
