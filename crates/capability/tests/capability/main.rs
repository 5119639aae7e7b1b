//! Probes as a user meets them: in processes of their own, as root and as an ordinary user, on bad days.
//!
//! This binary is also the one that [`capability::run_all`] starts, so it has a `main` of its own.

mod bad_days;
mod leftovers;
mod users;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

/// Far beyond what a probe takes, on a loaded machine too.
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [capability::ARGUMENT, name] => {
            bad_days::misbehave(name);
            return capability::serve_probe(name);
        }
        [users::RUN_ALL] => return users::run_all(),
        [leftovers::RUN_ONE, name] => return leftovers::run_one(name),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // they look at what is left on the machine
    let root = rustix::process::geteuid().is_root();
    // Shown as ignored, never left out silently.
    let as_root = |trial: Trial| trial.with_ignored_flag(!root);
    let trials = vec![
        as_root(Trial::test("every_probe_answers_as_root", users::as_root)),
        Trial::test("every_probe_answers_as_an_ordinary_user", users::as_ordinary_user),
        Trial::test("a_probe_that_hangs_is_killed_with_its_children", bad_days::hangs),
        Trial::test("a_probe_that_crashes_is_missing_with_its_signal", bad_days::crashes),
        Trial::test("a_probe_that_gives_up_is_missing_with_its_last_output", bad_days::gives_up),
        Trial::test("a_binary_that_is_not_there_is_named", bad_days::not_there),
        as_root(Trial::test("nothing_is_left_behind", leftovers::nothing_left)),
        as_root(Trial::test("a_killed_probe_s_cgroup_is_removed", leftovers::killed_with_a_cgroup)),
        Trial::test("a_probe_dies_with_its_parent", leftovers::parent_killed),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn this_binary() -> Result<PathBuf, Failed> {
    Ok(std::env::current_exe()?)
}

/// The numbers of the processes whose command line holds this text.
fn processes_with(mark: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(mark)
    })
    .collect()
}

/// Waits until this holds; what comes soon is not a matter of how soon.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    (0..400).any(|_| {
        let held = holds();
        if !held {
            std::thread::sleep(Duration::from_millis(10));
        }
        held
    })
}
