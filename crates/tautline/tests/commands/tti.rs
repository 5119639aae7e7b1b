//! `tautline tti` on the host and in a container: every tick is seen, limits are kept, nothing is left.

use crate::common::{Ended, Run, nothing_left, signal, temporary_folder, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn rows(run: &Ended) -> Vec<Value> {
    let results: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    assert_eq!(results["schema"], "tautline-tti/1");
    peers::schema::fits(&results);
    results["rows"].as_array().unwrap().clone()
}

#[test]
fn every_tick_is_seen_once_on_the_host_and_in_a_container_under_every_load() {
    let run = Run::new(&["tti", "--time", "300ms", "--quiet", "--format", "json"]).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let rows = rows(&run);
    assert_eq!(rows.len(), 8, "two environments, four loads");
    for row in &rows {
        let attempt = &row["outcome"]["Ok"];
        assert!(attempt["host_noise"].is_object() && attempt["verdict"]["discarded"].is_null(), "{row}");
        let (sent, received) = (&row["outcome"]["Ok"]["sent"], &row["outcome"]["Ok"]["received"]);
        assert_eq!(
            (&sent["ticks"], &received["ticks"], &received["lost"]),
            (&300.into(), &300.into(), &0.into()),
            "{row}"
        );
        assert_eq!(received["before_sent"], 0, "{row}");
        // One clock at both ends: the method finds no offset, within the error that it states.
        for end in ["before", "after"] {
            let alignment = &received["alignments"][end];
            let offset_ns = alignment["offset_ns"].as_i64().unwrap().unsigned_abs();
            assert!(offset_ns <= alignment["error_ns"].as_u64().unwrap(), "{row}");
        }
        let late = received["late"].as_u64().unwrap();
        assert!(late <= 300 && received["coalesced"].as_u64().unwrap() < 300, "{row}");
    }
    nothing_left(run.pid);
}

#[test]
fn compare_has_the_same_ticks() {
    let run = Run::new(&["compare", "--quick", "--quiet", "--only", "tti", "--blocks", "1"])
        .args(&["--environments", "host,container,vm:accel=tcg", "--format", "json"])
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results: measure::Results = serde_json::from_str(&run.stdout).unwrap();
    assert!(results.absences.is_empty(), "{:?}", results.absences);
    for metric in ["tti.none", "tti.cpu"] {
        for place in &results.environments {
            let mut trials = results.trials.iter().filter(|trial| {
                (trial.metric.as_str(), &trial.environment) == (metric, &place.name) && trial.verdict.counts()
            });
            let trial = trials.next().unwrap_or_else(|| panic!("{run}"));
            let histogram = trial.outcome.histogram.as_ref().unwrap();
            assert_eq!(histogram.count() + trial.outcome.missed, 200, "{metric} in {}", place.name);
            assert!(trial.outcome.value > 0.0, "{metric} in {}", place.name);
        }
    }
    assert!(results.environments.iter().any(|place| place.emulated));
    nothing_left(run.pid);
}

#[test]
fn a_missed_budget_is_exit_code_3_and_a_kept_one_is_not() {
    let tti = |budget| {
        Run::new(&["tti", "--time", "100ms", "--environments", "host", "--load", "none", "--budget", budget])
            .finish()
    };
    let missed = tti("100ns");
    assert_eq!(missed.code, Some(3), "{missed}");
    assert!(missed.stdout.contains("more than 100ns after it was due"), "{missed}");
    let kept = tti("10s");
    assert_eq!(kept.code, Some(0), "{kept}");
}

#[test]
fn what_cannot_be_meant_is_said_before_anything_starts() {
    for (arguments, said) in [
        (vec!["--environments", "remote:far"], "leave it out"),
        (vec!["--cpus", "0"], "name two"),
        (vec!["--interval", "1us"], "--interval"),
        (vec!["--priority", "99"], "--priority"),
        (vec!["--wait", "timer", "--stages"], "leave --wait out"),
    ] {
        let run = Run::new(&["tti"]).args(&arguments).finish();
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(said), "{run}");
    }
}

#[test]
fn ended_in_the_middle_it_leaves_nothing() {
    for (end, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let mut run = Run::new(&["tti", "--time", "1h", "--environments", "container"]).spawn();
        let pid = run.pid();
        let listens = || temporary_folder("tti", pid).is_some_and(|folder| folder.join("ticks").exists());
        assert!(wait_until(listens));
        signal(pid, end);
        let run = run.finish();
        assert_eq!(run.code, code, "{run}");
        nothing_left(pid);
    }
}

/// The command of docs/tti.md: without, with and alone, in turns. Figures are the machine's, the limit is ours.
#[test]
fn what_pv_sched_gives_is_measured_in_turns() {
    let page = include_str!("../../../../docs/tti.md");
    let line = page.lines().find_map(|line| line.strip_prefix("tautline tti --pv-sched ")).expect("the line");
    let line: Vec<&str> = line.split(' ').collect();
    let run = Run::new(&["tti", "--pv-sched", "--quiet", "--format", "json"]).args(&line).finish();
    let results: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    peers::schema::fits(&results);
    let outcome = &results["pv_sched"][0]["outcome"];
    let Some(rounds) = outcome["Ok"].as_array() else {
        // Real time needs a right, which is asked for.
        let failed = outcome["Err"].to_string();
        assert!(failed.contains("CAP_SYS_NICE"), "{failed}");
        peers::required("real-time", false, "run the tests as root or with CAP_SYS_NICE");
        return;
    };
    assert!(rounds.iter().all(|round| round["host_noise"].is_object()), "{outcome}");
    // Noise of the machine may have a round repeated.
    let rounds = || rounds.iter().filter(|round| round["verdict"]["discarded"].is_null());
    let ways: Vec<_> = rounds().map(|round| round["sharing"].as_str().unwrap()).collect();
    assert_eq!(ways, ["shared", "raised", "alone", "alone", "raised", "shared"]);
    for round in rounds() {
        let share = round["raised_share"].as_f64().unwrap();
        match round["sharing"] == "raised" {
            // A fifth, and what the daemon was late by.
            true => assert!(share > 0.0 && share < 0.45, "{round}"),
            false => assert_eq!(share, 0.0, "{round}"),
        }
    }
    nothing_left(run.pid);
}
