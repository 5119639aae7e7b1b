//! The kernel's bridge as a user measures it: it gets figures, and an interrupt leaves nothing.
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(120);

/// `tautline`, which measures the bridge. The program belongs to another crate, so it is built here, unless the
/// environment names one that was just built.
fn tautline() -> PathBuf {
    if let Some(program) = std::env::var_os("TAUTLINE_PROGRAM") {
        return program.into();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_bench-peers")).with_file_name("tautline");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "-p", "tautline", "--bin", "tautline"]);
    if program.parent().is_some_and(|folder| folder.ends_with("release")) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "{build:?}");
    program
}

fn start(results: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
    command.args(["--only-bridge", "--pages", "small", "--accept-noise", "--tautline"]).arg(tautline());
    command.arg("--results").arg(results).stdout(Stdio::null()).spawn().unwrap()
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
fn the_bridge_has_a_maximum_a_throughput_and_latencies() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = start(folder.path());
    let status = until("the end of the run", || run.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let written = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(written.join("results-small.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    let zero_loss = results["zero_loss"].as_array().unwrap();
    let measured: Vec<u64> =
        zero_loss.iter().map(|found| found["cell"]["frame_bytes"].as_u64().unwrap()).collect();
    assert_eq!(measured, [64, 1518], "{}", results["left_out"]);
    for found in zero_loss {
        assert_eq!(found["system"], "kernel-bridge");
        assert!(found["found"]["maximum"]["received_fps"].as_f64().unwrap() > 0.0, "{found}");
        assert!(!found["found"]["search"]["trials"].as_array().unwrap().is_empty(), "{found}");
    }
}

#[test]
fn an_interrupt_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = start(folder.path());
    let id = run.id();
    // The one that holds the namespace, and tautline.
    let children = until("the children", || Some(children(id)).filter(|found| found.len() >= 2));
    let own = namespace(std::process::id());
    let made = until("a namespace", || {
        children.iter().find_map(|id| namespace(*id).filter(|made| Some(made) != own.as_ref()))
    });
    // Into the trials.
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::INT).unwrap();
    let status = until("the end of the run", || run.try_wait().unwrap());
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    for child in children {
        assert!(!Path::new(&format!("/proc/{child}")).exists(), "process {child} is left");
    }
    // What the children had started ends with them, by a signal of the kernel's: a moment later.
    until("an empty namespace", || {
        let mut left = processes().filter(|id| namespace(*id).as_ref() == Some(&made));
        left.next().is_none().then_some(())
    });
}
