//! `tautline scenario` on the host and in a container: all work is done and right, or counted as missing.

use crate::common::{Ended, Run, nothing_left, signal, temporary_folder, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn results(run: &Ended) -> Value {
    let results: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    assert_eq!(results["schema"], "tautline-scenario/1");
    peers::schema::fits(&results);
    results
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The trials of a run that count. Noise of the machine may have others repeated.
fn counted(run: &Value) -> Vec<&Value> {
    let trials = run["trials"].as_array().unwrap_or_else(|| panic!("{run}"));
    assert!(trials.iter().all(|trial| trial["host_noise"].is_object()), "{run}");
    trials.iter().filter(|trial| trial["verdict"]["discarded"].is_null()).collect()
}

/// Whether frames may be lost, which depends on how busy the machine is.
#[derive(Clone, Copy, PartialEq)]
enum Fits {
    /// The queues hold all frames of all ticks: none is lost however slow a member is.
    Always,
    /// The queues may hold less than all frames.
    Perhaps,
}

/// All sent frames arrived, or are counted as lost; all that arrived were right; the stages add up.
fn check_trial(trial: &Value, ticks: u64, users: u64, fits: Fits) {
    let members = trial["members"].as_array().unwrap();
    let (first, last) = (&members[0], members.last().unwrap());
    assert_eq!((number(&first["ticks"]), number(&first["sent"])), (ticks, ticks * users), "{trial}");
    for pair in members.windows(2) {
        assert!(number(&pair[1]["received"]) <= number(&pair[0]["sent"]), "{trial}");
    }
    let refused: u64 = members.iter().map(|member| number(&member["refused"])).sum();
    let lost: u64 =
        members.windows(2).map(|pair| number(&pair[0]["sent"]) - number(&pair[1]["received"])).sum();
    let ended = &last["ended"];
    let [in_time, late, incomplete] = ["in_time", "late", "incomplete"].map(|name| number(&ended[name]));
    assert_eq!(in_time + late + incomplete, number(&last["ticks"]), "{trial}");
    let vanished = ticks - number(&last["ticks"]);
    if fits == Fits::Always {
        assert_eq!((lost, vanished), (0, 0), "{trial}");
    }
    // Only what follows a lost frame may not be understood; work is missing only where a frame or the end of a tick is.
    assert!(refused == 0 || lost > 0, "{trial}");
    assert!(incomplete <= lost + refused + vanished, "{trial}");
    let worst: u64 = ended["worst"][1].as_array().unwrap().iter().map(number).sum();
    // A chain that is far behind may end none.
    assert!(worst > 0 || number(&last["ticks"]) == 0, "{trial}");
}

#[test]
fn a_base_station_serves_its_users_on_the_host_and_in_a_container() {
    const TICKS: u64 = 40;
    let run = Run::new(&["scenario", "base-station", "--users", "4", "--time", "40ms", "--repeat", "1"])
        .args(&["--missed-per-thousand", "1000", "--quiet", "--format", "json"])
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = results(&run);
    let environments = results["environments"].as_array().unwrap();
    assert_eq!(environments.len(), 2);
    for environment in environments {
        let trials = counted(&environment["outcome"]["Ok"][0]);
        assert_eq!(trials.len(), 1, "{environment}");
        check_trial(trials[0], TICKS, 4, Fits::Always);
        let stages = trials[0]["members"][3]["ended"]["stages"].as_array().unwrap();
        let names: Vec<_> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["radio unit", "to layer 1", "layer 1", "to layer 2", "layer 2", "to core", "core"],
            "{environment}"
        );
    }
    nothing_left(run.pid);
}

/// Layer 1 and layer 2 are guests of their own at the switch, on an emulated CPU. All frames of all ticks fit into the
/// queues: however slow it is, none may be lost.
#[test]
fn a_base_station_whose_layers_are_guests() {
    const TICKS: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slow.toml");
    let list = Run::new(&["scenario", "--list"]).finish();
    let text = list.stdout.split("# --- control-loop.toml").next().unwrap();
    let text = text.replace("interval_us = 1000 ", "interval_us = 20000 ");
    std::fs::write(&file, text.replace("deadline_us = 1000 ", "deadline_us = 10000000 ")).unwrap();
    let run = Run::new(&["scenario", file.to_str().unwrap(), "--users", "2", "--time", "400ms"])
        .args(&["--environments", "host,vm:accel=tcg,memory=512", "--repeat", "1"])
        .args(&["--missed-per-thousand", "1000", "--quiet", "--format", "json"])
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = results(&run);
    let environments = results["environments"].as_array().unwrap();
    assert_eq!(environments.len(), 2);
    for (environment, is_guest) in environments.iter().zip([false, true]) {
        let trial = counted(&environment["outcome"]["Ok"][0])[0];
        check_trial(trial, TICKS, 2, Fits::Always);
        let members = trial["members"].as_array().unwrap();
        for member in members {
            let [received, announced] = ["received", "announced"].map(|name| number(&member[name]));
            assert_eq!((received, number(&member["ticks"])), (announced, TICKS), "{trial}");
        }
        let ended = &members[3]["ended"];
        assert_eq!((number(&ended["in_time"]), number(&ended["late"])), (TICKS, 0), "{trial}");
        // Only a guest has a clock of its own.
        let own_clocks = members.iter().map(|member| number(&member["clock_error_ns"]) > 0);
        assert_eq!(own_clocks.collect::<Vec<_>>(), [false, is_guest, is_guest, false], "{trial}");
        assert!(!is_guest || environment["is_emulated"] == true, "{environment}");
    }
    nothing_left(run.pid);
}

#[test]
fn a_file_of_ones_own_with_workers_and_cells() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let list = Run::new(&["scenario", "--list"]).finish();
    let text = list.stdout.split("# --- control-loop.toml").next().unwrap();
    std::fs::write(
        &file,
        text.replace("Base station", "Mine").replace("interval_us = 1000", "interval_us = 2000"),
    )
    .unwrap();
    let run =
        Run::new(&["scenario", file.to_str().unwrap(), "--users", "3", "--cells", "2", "--workers", "2"])
            .args(&[
                "--time",
                "60ms",
                "--repeat",
                "1",
                "--environments",
                "host",
                "--missed-per-thousand",
                "1000",
            ])
            .args(&["--format", "json", "--bytes", "1400"])
            .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = results(&run);
    assert_eq!(results["description"]["title"], "Mine");
    check_trial(counted(&results["environments"][0]["outcome"]["Ok"][0])[0], 30, 6, Fits::Always);
}

/// Its queues are full when the first member has done its ticks: what says so must not get lost.
#[test]
fn a_chain_that_is_far_behind_ends_all_the_same() {
    let run = Run::new(&["scenario", "base-station", "--users", "100", "--cells", "2", "--bytes", "1400"])
        .args(&[
            "--time",
            "100ms",
            "--repeat",
            "1",
            "--environments",
            "host",
            "--missed-per-thousand",
            "1000",
        ])
        .args(&["--format", "json"])
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = results(&run);
    check_trial(counted(&results["environments"][0]["outcome"]["Ok"][0])[0], 100, 200, Fits::Perhaps);
    nothing_left(run.pid);
}

#[test]
fn a_missed_deadline_is_exit_code_3_and_a_search_says_that_nobody_fits() {
    let loop_of = |more: &[&str]| {
        Run::new(&["scenario", "control-loop", "--environments", "host", "--time", "50ms", "--repeat", "1"])
            .args(&["--deadline", "1us"])
            .args(more)
            .finish()
    };
    let missed = loop_of(&["--users", "2"]);
    assert_eq!(missed.code, Some(3), "{missed}");
    assert!(missed.stdout.contains("ticks missed: "), "{missed}");
    let search = loop_of(&["--format", "json"]);
    assert_eq!(search.code, Some(0), "{search}");
    let run = &results(&search)["environments"][0]["outcome"]["Ok"][0];
    assert_eq!(run["fits"], 0, "{run}");
    let users: Vec<_> = counted(run).into_iter().map(|trial| number(&trial["users"])).collect();
    assert_eq!(users, [8, 8, 4, 4, 2, 2, 1, 1]);
}

#[test]
fn what_cannot_be_meant_is_said_before_anything_starts() {
    for (arguments, said) in [
        (vec!["base-station", "--environments", "vm:profile=latency"], "leave it out"),
        (vec!["base-station", "--environments", "remote:far"], "leave it out"),
        (vec!["base-station", "--bytes", "9"], "bytes = 9"),
        (vec!["space-station"], "name a file or one of base-station, control-loop"),
        (vec![], "NAME|FILE"),
    ] {
        let run = Run::new(&["scenario"]).args(&arguments).finish();
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(said), "{run}");
    }
}

#[test]
fn ended_in_the_middle_it_leaves_nothing() {
    for (end, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let mut run = Run::new(&["scenario", "base-station", "--users", "2", "--time", "10s"])
            .args(&["--environments", "container", "--repeat", "1"])
            .spawn();
        let pid = run.pid();
        let started =
            || temporary_folder("scenario", pid).is_some_and(|folder| folder.join("member-3").exists());
        assert!(wait_until(started));
        signal(pid, end);
        let run = run.finish();
        assert_eq!(run.code, code, "{run}");
        nothing_left(pid);
    }
}
