//! The tables and gates of a results file, drawn by the program as a user would have it.
use std::path::Path;
use std::process::{Command, Output};

use measure::host_facts::HostFacts;
use serde_json::{Value, json};

const PACKED: &str = "packed-in-order";

/// A trial that was not disturbed: both sides waited a quarter of their time.
fn trial(system: &str, path: &str, frames_per_second: f64, round: u32) -> Value {
    let usage = json!({ "idle": 0.25, "busy_ns_per_frame": 50.0 });
    let state = json!({ "line_ns": 30.0, "arithmetic_ns": [5000.0, 5000.0], "shared": false });
    json!({
        "cell": { "driver": "dpdk", "topology": "vm2vm", "path": path, "frame_bytes": 64 },
        "system": system, "start": round / 4, "round": round, "attempt": 0,
        "frames_per_second": frames_per_second, "window_ns": 60_000_000,
        "noise": measure::Noise::default(), "device": usage, "driver": usage,
        "transfer_limit_fps": 20e6, "machine": [state, state], "verdict": "accepted",
    })
}

/// Eight rounds of three systems on a split ring, one round on a packed one, and what rfc2544 found of the bridge.
fn results() -> Value {
    let host = HostFacts {
        cpu_model: "Some CPU".to_owned(),
        cpus_online: 2,
        kernel: "6.1.0 #1 SMP".to_owned(),
        ..HostFacts::default()
    };
    let mut trials: Vec<Value> = Vec::new();
    for round in 0..8 {
        let systems =
            [("tautline-wire", 12e6), ("testpmd", 8e6), ("tautline-learning", 10e6), ("ovs-learning", 5e6)];
        trials.extend(systems.map(|(system, rate)| trial(system, "split", rate, round)));
    }
    trials.extend(
        [("tautline-wire", 4e6), ("testpmd", 8e6)].map(|(system, rate)| trial(system, PACKED, rate, 0)),
    );
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../traffic/tests/data/rfc2544.json");
    let example: Value = serde_json::from_str(&std::fs::read_to_string(example).unwrap()).unwrap();
    let program = |name: &str, version: &str| json!({ "name": name, "version": version, "build": "as packaged", "file": "/secret/place" });
    json!({
        "schema": "tautline-bench-peers/3", "started": "2026-01-02T03:04:05Z", "elapsed_s": 60.0, "host": host,
        "programs": [
            program("testpmd as device (net_vhost)", "DPDK 26.07.0"),
            program("testpmd as driver (net_virtio_user)", "DPDK 22.11.11"),
        ],
        "plan": {
            "quick": true, "testpmd": null, "testpmd_driver": null, "ovs": null, "no_ovs": false,
            "paths": ["split", PACKED], "sizes": [64, 1518], "topologies": ["vm2vm", "loop"], "rounds": 8,
            "time": null, "no_bridge": false, "only_bridge": false, "no_generator": false, "accept_noise": false,
            "rounds_between": 3, "driver_cpu": 0, "switch_cpu": 1, "huge_pages": true, "no_huge_pages": null,
        },
        "code_paths": [{
            "path": "split", "systems": ["testpmd", "tautline-wire"], "words": ["standard Rx", "standard Tx"],
            "features": "VERSION_1",
        }],
        "trials": trials,
        "zero_loss": [{
            "cell": { "driver": "tautline", "topology": "vm2vm", "path": null, "frame_bytes": 64 },
            "system": "kernel-bridge", "found": example["sizes"][0],
        }],
        "left_out": ["loop: for lack of time"],
    })
}

fn render(folder: &Path, results: &Value, gate: Option<&str>) -> Output {
    std::fs::write(folder.join("results.json"), results.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
    command.args(["render", "results.json", "--markdown", "."]).current_dir(folder);
    if let Some(gate) = gate {
        std::fs::write(folder.join("gate.toml"), gate).unwrap();
        command.args(["--gate", "gate.toml"]);
    }
    command.output().unwrap()
}

/// The page, with every run of spaces as one, and what else was said.
fn page(results: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = render(folder.path(), results, None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(folder.path().join("2026-01-02-some-cpu-2cpus.md")).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), page, "there are no sizes between");
    page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[test]
fn a_page_says_when_and_where_and_stands_by_itself() {
    let text = page(&results());
    let heading = text.lines().next().unwrap();
    assert!(heading.starts_with("## 2026-01-02: "), "{heading}");
    for fact in ["Some CPU", "Linux 6.1.0,", "huge pages (2 MiB) at both ends"] {
        assert!(heading.contains(fact), "no {fact} in {heading}");
    }
    for line in [
        "| testpmd as device (net_vhost) | DPDK 26.07.0 | as packaged |",
        "| split | standard Rx, standard Tx | VERSION_1 | testpmd, tautline-wire |",
        // The overview: medians, intervals over rounds and starts, busy time, bottleneck, rounds and starts.
        "| vm2vm | 64 | split | 12.00 (10.00) | 8.00 | 5.00 | 1.50 [1.50, 1.50] (1.50, 1.50) | 2.00 [2.00, 2.00] \
         (2.00, 2.00) | 50.0 (50.0) | 50.0 | 50.0 | 1.00 | both | (8/2) |",
        "| vm2vm | 64 | packed-in-order | 4.00 | 8.00 | – | 0.50 | – | 50.0 | 50.0 | – | 1.00 | both | (1/1) |",
        "| 64 | split | (8/2) | tautline-wire | 12.00 | 1.50 [1.50, 1.50] (1.50, 1.50) | – | 50.0 (1.00) | 0.60 (1.00) \
         | 25 / 25 | both |",
        "- Not measured: loop: for lack of time",
        "- DPDK's driver is of another version than DPDK's device.",
    ] {
        assert!(text.lines().any(|there| there == line), "no {line} in {text}");
    }
    let bridge = text.lines().find(|line| line.contains("kernel-bridge")).unwrap();
    assert!(bridge.starts_with("| 64 | vm2vm | TAP | kernel-bridge | ≥ 0.02 | "), "{bridge}");
    let intervals = "- [rounds]: an interval of the rounds' ratios. 8 rounds: minimum to maximum, 99.2 %. Of 2 ratios with an interval, about \
                     none would differ by chance alone";
    assert!(text.contains(intervals) && !text.contains("95 %"), "{text}");
    assert!(text.contains("not independent") && !text.contains("/secret/place"), "{text}");
    let mut small = results();
    small["plan"]["huge_pages"] = json!(false);
    small["plan"]["no_huge_pages"] = json!("the kernel gave 3");
    let text = page(&small);
    assert!(text.contains("small pages (4 KiB) at both ends") && !text.contains("(2 MiB)"), "{text}");
    assert!(text.contains("could not be had") && text.contains("the kernel gave 3"), "{text}");
}

#[test]
fn trials_are_of_one_latency_class_or_of_none() {
    let mut moved = results();
    // The host moved the cores for five rounds of eight, and within the next one.
    for trial in moved["trials"].as_array_mut().unwrap() {
        let line_ns = match trial["round"].as_u64().unwrap() {
            0..5 => [130.0, 131.0],
            5 => [130.0, 28.0],
            _ => [28.0, 30.0],
        };
        for (at, ns) in line_ns.into_iter().enumerate() {
            trial["machine"][at]["line_ns"] = json!(ns);
        }
    }
    let text = page(&moved);
    let split: Vec<&str> =
        text.lines().filter(|line| line.contains("tautline-wire | 12.00")).map(|line| &line[..30]).collect();
    assert_eq!(split, ["| 64 | split | low (2/1) | tau", "| 64 | split | high (5/2) | ta"]);
    // The overview has the one with more rounds.
    assert!(
        text.lines().any(|line| line.starts_with("| vm2vm | 64 | split |") && line.ends_with("high (5/2) |"))
    );
    assert!(text.contains("The host moved the two CPUs"), "{text}");
}

#[test]
fn a_gate_judges_what_it_names_and_tables_know_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |gate: &str| {
        let output = render(folder.path(), &results(), Some(&format!("min_rounds = 3\n{gate}")));
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        let missed = said.lines().filter(|line| line.starts_with("missed: ")).map(str::to_owned);
        (output.status.code(), missed.collect::<Vec<_>>(), said)
    };
    let limit = |words: &str| judged(&format!("[[limit]]\nfigure = \"rate\"\nmin = 2.0\n{words}\n"));
    // The packed ring has fewer rounds than are judged, and misses nothing.
    let (status, missed, said) = limit("");
    assert_eq!(
        missed,
        [
            "missed: vm2vm, split, 64 B, dpdk driver: Rate of tautline-wire over testpmd is 1.50, at least 2 is wanted"
        ]
    );
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.contains("2 figures of 3 and more rounds judged, 1 missed a limit; 0 of 1 limits had no figure"),
        "{said}"
    );
    for (words, count) in [
        ("topology = \"vm2vm\"\npacked = false\nsizes = [64]\npeer = \"testpmd\"", 1),
        ("driver = \"dpdk\"\nsystem = \"tautline-wire\"", 1),
        ("topology = \"loop\"", 0),
        ("packed = true", 0),
        ("sizes = [128, 1518]", 0),
        ("peer = \"ovs-learning\"", 0),
        ("driver = \"tautline\"", 0),
    ] {
        assert_eq!(limit(words).1.len(), count, "{words}");
    }
    for (gate, words) in [
        ("limit = []", "no limit"),
        ("[[limit]]\nfigure = \"rate\"", "one of min and max"),
        ("[[limit]]\nfigure = \"rate\"\nmin = 1.0\nmax = 2.0", "one of min and max"),
        ("[[limit]]\nfigure = \"rate\"\nmin = nan", "finite"),
        ("[[limit]]\nfigure = \"speed\"\nmin = 1.0", "speed"),
        ("[[limit]]\nfigure = \"rate\"\nleast = 1.0", "least"),
    ] {
        let (status, _, said) = judged(gate);
        assert!(status == Some(1) && said.contains(words), "{gate}: {said}");
    }
    let (status, ..) = judged(
        &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/gate.toml"))
            .unwrap()
            .replace("min_rounds = 3", ""),
    );
    assert_eq!(status, Some(3), "the project's own: at most 0.8 of DPDK's busy time, and 1.00 is there");
    let text = page(&results());
    for word in ["target", "missed", "goal", " near", " far ", "whole core", "bound", "wanted"] {
        assert!(!text.contains(word), "'{word}' in {text}");
    }
}

#[test]
fn files_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = results();
    other["schema"] = json!("tautline-bench-peers-2");
    let output = render(folder.path(), &other, None);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("tautline-bench-peers-2"), "{said}");
}
