//! The kernel's bridge as a user measures it: both drivers get figures, and an interrupt leaves nothing.
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(120);

/// Nothing of the switch is measured, so any file will do for it.
fn start(results: &Path, rounds: u32) -> Child {
    let program = env!("CARGO_BIN_EXE_bench-peers");
    let mut command = Command::new(program);
    command.args([
        "--only-bridge",
        "--pages",
        "small",
        "--accept-noise",
        "--trial-ms",
        "50",
        "--search-trial-ms",
        "20",
    ]);
    command.args(["--rounds", &rounds.to_string(), "--tautline", program, "--results"]).arg(results);
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Looks until there is something to see.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "{what}: not within {} s", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes that it has started.
fn children(of: u32) -> BTreeSet<u32> {
    let parent = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest).to_owned();
        rest.split_whitespace().nth(1).and_then(|id| id.parse::<u32>().ok())
    };
    processes().filter(|id| parent(id) == Some(of)).collect()
}

fn namespace(of: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{of}/ns/net")).ok()
}

#[test]
fn both_drivers_measure_the_bridge() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = start(folder.path(), 1);
    let status = until("the end of the run", || run.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let written = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(written.join("results-small.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    let figure = |trial: &serde_json::Value| {
        assert_eq!(trial["system"], "kernel-bridge");
        assert!(trial["frames_per_second"].as_f64().unwrap() > 0.0, "{trial}");
        let cell = &trial["cell"];
        (cell["driver"].as_str().unwrap().to_owned(), cell["frame_bytes"].as_u64().unwrap())
    };
    let measured: BTreeSet<(String, u64)> =
        results["trials"].as_array().unwrap().iter().map(figure).collect();
    let wanted = ["dpdk", "tautline"]
        .into_iter()
        .flat_map(|driver| [64, 1518].map(|bytes| (driver.to_owned(), bytes)));
    assert_eq!(measured, wanted.collect(), "{}", results["left_out"]);
    let zero_loss = results["zero_loss"].as_array().unwrap();
    assert_eq!(zero_loss.len(), 2, "{}", results["left_out"]);
    // At a tenth, a half and nine tenths, or none where the generator was late.
    assert!(zero_loss.iter().all(|found| found["latency_ns"].as_array().unwrap().len() == 3));
    // Which way DPDK's driver went, and if not the one of rings, why.
    let tables = std::fs::read_to_string(written.join("table.txt")).unwrap();
    assert!(tables.contains("TAP, vhost-net") && tables.contains("TAP, tap: port"), "{tables}");
}

#[test]
fn an_interrupt_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = start(folder.path(), 10_000);
    let id = run.id();
    // The one that holds the namespace, and testpmd.
    let children = until("the children", || Some(children(id)).filter(|found| found.len() >= 2));
    let own = namespace(std::process::id());
    let made = until("a namespace", || {
        children.iter().find_map(|id| namespace(*id).filter(|made| Some(made) != own.as_ref()))
    });
    // Into the trials.
    std::thread::sleep(Duration::from_secs(2));
    kill(Pid::from_raw(id as i32), Signal::SIGINT).unwrap();
    let status = until("the end of the run", || run.try_wait().unwrap());
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    for child in children {
        assert!(!Path::new(&format!("/proc/{child}")).exists(), "process {child} is left");
    }
    let left: Vec<u32> = processes().filter(|id| namespace(*id).as_ref() == Some(&made)).collect();
    assert!(left.is_empty(), "processes {left:?} are in the namespace still");
}
