//! The command as a user runs it, on good days and bad ones. Nothing here asserts a figure.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::common::{Run, leftovers, nothing_left, tautline, wait_until};
use measure::{EnvironmentKind, Results};
use rustix::process::Signal;

/// Trials of an environment that count: a noisy one is repeated, so that there may be more.
fn counted(results: &Results, environment: &str) -> usize {
    results.trials.iter().filter(|trial| trial.environment == environment && trial.verdict.counts()).count()
}

#[test]
fn three_environments_give_a_table_a_page_and_raw_samples() {
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["r.json", "r.html"].map(|name| folder.path().join(name));
    let run =
        Run::new(&["compare", "--quick", "--blocks", "2", "--only", "cpu.crc.one,os.syscall,wakeup.idle"])
            .arg("--output")
            .arg(&json)
            .arg("--html")
            .arg(&html)
            .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = Results::load(&json).unwrap();
    assert!(results.complete && results.plan.quick);
    let kinds: Vec<EnvironmentKind> = results.environments.iter().map(|place| place.kind).collect();
    assert_eq!(kinds, [EnvironmentKind::Host, EnvironmentKind::Container, EnvironmentKind::Vm]);
    for place in &results.environments {
        assert_eq!(place.failure, None, "{run}");
        for metric in &results.metrics {
            let blocks = results.trials.iter().filter(|trial| {
                trial.verdict.counts() && trial.environment == place.name && trial.metric == metric.id
            });
            assert_eq!(blocks.count(), 2, "{} in {}: {run}", metric.id, place.name);
        }
    }
    // The three places are three kernels' views: the guest boots another kernel, the container shares the host's.
    let kernel = |index: usize| {
        let facts = &results.environments[index].facts;
        facts.iter().find(|(key, _)| key == "kernel").map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(kernel(0), kernel(1));
    assert_ne!(kernel(0), kernel(2));
    let vm = &results.environments[2];
    assert_eq!(vm.emulated, vm.accelerator == "tcg" || kvm::is_emulated());
    if vm.emulated {
        assert!(run.stdout.contains("emulated"), "{run}");
    }
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg"), "no plot on the page");
    assert!(run.stdout.contains("quick") || run.stdout.contains("QUICK"), "{run}");
    nothing_left(run.pid);

    let redrawn = Run::new(&["report"]).arg(&json).finish();
    assert_eq!(redrawn.code, Some(0), "{redrawn}");
    assert!(redrawn.stdout.contains("noise and gaps"), "{redrawn}");
    let two = Run::new(&["report"]).arg(&json).arg(&json).finish();
    assert_eq!(two.code, Some(0), "{two}");
}

#[test]
fn a_cpu_quota_is_named_and_trials_last_until_it_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let run = Run::new(&["compare", "--quick", "--only", "cpu.crc.one,cpu.latency.int_add", "--cpus", "0"])
        .args(&["--environments", "host,container:cpus=0.5"])
        .arg("--output")
        .arg(&json)
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = Results::load(&json).unwrap();
    let [host, container] = &results.environments[..] else { panic!("{run}") };
    let quota = container.cpu_quota.unwrap_or_else(|| panic!("{run}"));
    assert_eq!((quota.quota.cpus(), quota.inherited), (0.5, false), "{run}");
    assert_eq!(host.cpu_quota, None, "{run}");
    let least_ns = quota.trial_ms * 1_000_000;
    assert!(quota.trial_ms >= 50, "fifty ticks of a millisecond: {quota:?}");
    for trial in &results.trials {
        let is_limited = trial.environment == container.name;
        let (is_long, is_throttled) =
            (trial.outcome.elapsed_ns > least_ns * 3 / 4, trial.host_noise.throttled_periods > 0);
        // A trial whose pace was found on a busy machine may be over before its first quota is.
        assert!(if is_limited { is_throttled || !is_long } else { !is_throttled && !is_long }, "{trial:?}");
    }
    // A batch may be left away, or come on top. Most trials are long.
    let limited = results.trials.iter().filter(|trial| trial.environment == container.name);
    let mut elapsed_ns: Vec<u64> = limited.map(|trial| trial.outcome.elapsed_ns).collect();
    elapsed_ns.sort_unstable();
    assert!(elapsed_ns[elapsed_ns.len() / 2] > least_ns * 3 / 4, "{elapsed_ns:?}");
    assert!(run.stdout.lines().count() <= report::screen::LINES, "{run}");
    let redrawn = Run::new(&["report"]).arg(&json).finish();
    let words: String = redrawn.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "container: CPU quota of 0.5 CPUs",
        "takes 2.00 times as long by the quota alone",
        "about 0.1 of 2 would differ by chance at this level",
        "6 starts: minimum to maximum of the starts' ratios, 96.9 %",
        "6 fresh starts of every environment",
        "on a core whose SMT sibling was at work",
    ] {
        assert!(words.contains(part), "{part}: {run}");
    }
    for word in ["floor", "target", "MISSED"] {
        assert!(!words.contains(word), "{word}: {run}");
    }
    nothing_left(run.pid);
}

#[test]
fn an_agent_that_dies_is_named_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let mut run = Run::new(&["compare", "--quick", "--blocks", "1", "--wakeup-trial", "3s"])
        .args(&["--only", "wakeup.idle,os.syscall", "--environments", "host,host"])
        .arg("--output")
        .arg(&json)
        .spawn();
    // The first agent in the middle of its long trial; those of the first proof are gone by then.
    let agents = || crate::common::children(run.pid(), "agent");
    assert!(wait_until(|| agents().len() == 2), "two agents run");
    std::thread::sleep(Duration::from_millis(1000));
    let victim = agents()[0];
    crate::common::signal(victim, Signal::KILL);
    let run = run.finish();
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("signal: 9"), "{run}");
    let results = Results::load(&json).unwrap();
    let failed = results.environments.iter().filter(|place| place.failure.is_some()).count();
    assert_eq!(failed, 1, "{run}");
    let other = results.environments.iter().find(|place| place.failure.is_none()).unwrap();
    assert_eq!(counted(&results, &other.name), 2, "{run}");
    nothing_left(run.pid);
}

#[test]
fn a_guest_that_hangs_is_given_up_and_the_host_still_measured() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let mut run =
        Run::new(&["compare", "--quick", "--blocks", "1", "--wakeup-trial", "1500ms", "--timeout", "2s"])
            .args(&["--only", "wakeup.idle", "--environments", "host,vm:accel=tcg", "--rounds", "2"])
            .args(&["--verbose"])
            .arg("--output")
            .arg(&json)
            .spawn();
    // Stopped while the host has its long trial: the guest has started, and is idle.
    assert!(wait_until(|| run.errors().contains("start 1/1  host")), "{}", run.errors());
    for guest in crate::common::children(run.pid(), "-name") {
        crate::common::signal(guest, Signal::STOP);
    }
    let run = run.finish();
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("no answer within"), "{run}");
    let results = Results::load(&json).unwrap();
    assert_eq!(counted(&results, "host"), 2, "{run}");
    assert!(results.environments[1].failure.is_some(), "{run}");
    nothing_left(run.pid);
}

#[test]
fn an_interrupt_keeps_what_was_gathered_and_leaves_nothing() {
    // During the first proofs, a little later, and once the first block was kept.
    for (signal, moment) in [(Signal::INT, Some(300)), (Signal::INT, Some(3500)), (Signal::TERM, None)] {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("r.json");
        let mut run =
            Run::new(&["compare", "--quick", "--blocks", "500", "--only", "cpu.crc.one,os.syscall"])
                .arg("--output")
                .arg(&json)
                .spawn();
        match moment {
            Some(after_ms) => std::thread::sleep(Duration::from_millis(after_ms)),
            None => assert!(wait_until(|| json.exists()), "the first block is kept"),
        }
        crate::common::signal(run.pid(), signal);
        let run = run.finish();
        assert_eq!(run.code, Some(130), "{signal:?} at {moment:?}: {run}");
        assert!(run.stderr.contains("interrupted"), "{run}");
        let results = Results::load(&json).unwrap();
        assert!(!results.complete);
        if moment.is_none() {
            assert!(!results.trials.is_empty(), "{run}");
        }
        nothing_left(run.pid);
    }
}

#[test]
fn a_killed_parent_leaves_nothing() {
    let mut run = Run::new(&["compare", "--quick", "--blocks", "50", "--only", "cpu.crc.one"]).spawn();
    let pid = run.pid();
    assert!(wait_until(|| !leftovers(pid).is_empty() && !crate::common::children(pid, "-name").is_empty()));
    std::thread::sleep(Duration::from_millis(1500));
    run.kill();
    assert!(wait_until(|| leftovers(pid).is_empty()), "left behind: {:?}", leftovers(pid));
}

#[test]
fn what_is_missing_is_named_and_the_rest_measured() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(&["compare", "--tables", "--quick", "--blocks", "1", "--only", "cpu.crc.one"])
        .env("PATH", "/nonexistent")
        .env("XDG_STATE_HOME", folder.path())
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("qemu-system") && run.stdout.contains("not installed"), "{run}");
    assert!(run.stdout.contains("CRC"), "{run}");

    let run = Run::new(&["compare", "--tables", "--quick", "--blocks", "1", "--only", "cpu.crc.one"])
        .args(&["--environments", "host,vm:kernel=/nonexistent/vmlinuz,container:runtime=runc"])
        .env("XDG_STATE_HOME", folder.path())
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("/nonexistent/vmlinuz"), "{run}");

    let run = Run::new(&["compare", "--tables", "--quick", "--blocks", "1", "--only", "cpu.crc.one"])
        .args(&["--environments", "vm:kernel=/nonexistent/vmlinuz"])
        .env("XDG_STATE_HOME", folder.path())
        .finish();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("nothing could be measured"), "{run}");
}

#[test]
fn a_full_disk_is_named_the_table_printed_and_nothing_left() {
    // A file system of 64 KiB in a mount namespace of its own: too small for the results.
    let script = "mount -t tmpfs -o size=64k none /mnt && exec \"$0\" compare --tables --quick --blocks 2 --environments \
                  host,host --only os,cpu --output /mnt/r.json";
    let run = Run::of(Command::new("unshare").args(["--mount", "sh", "-c", script]).arg(tautline())).finish();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("No space left") && run.stderr.contains("/mnt/r.json"), "{run}");
    assert!(run.stdout.contains("CRC"), "{run}");

    let script = "mount -t tmpfs -o size=4k,nr_inodes=2 none /mnt && export TMPDIR=/mnt && exec \"$0\" compare --tables --quick --blocks 1 \
                  --environments container:runtime=runc,host --only cpu.crc.one";
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(tautline()).env("XDG_STATE_HOME", state.path());
    let run = Run::of(&mut command).finish();
    // The program that meets the full disk first, this one or the runtime, is quoted.
    assert!(run.stderr.to_lowercase().contains("no space left"), "{run}");
    assert!(run.stdout.contains("CRC"), "{run}");
    nothing_left(run.pid);
}

#[test]
fn an_ordinary_user_gets_all_three_environments() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let binary = home.join("tautline");
    fs::copy(tautline(), &binary).unwrap();
    let kernel = environment::vm::find_kernel().unwrap();
    fs::copy(kernel, home.join("vmlinuz")).unwrap();
    for path in [folder.path(), &home] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
    command.args(["compare", "--quick", "--blocks", "1", "--only", "cpu.crc.one,wakeup.idle"]);
    command.arg("--environments").arg(format!("host,container,vm:kernel={}", home.join("vmlinuz").display()));
    command.env("HOME", &home).env("TMPDIR", &home).env_remove("XDG_STATE_HOME").env_remove("XDG_CACHE_HOME");
    let run = Run::of(&mut command).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = Results::load(&home.join(".local/state/tautline/last-compare.json")).unwrap();
    for place in &results.environments {
        assert_eq!(place.failure, None, "{run}");
        assert!(results.trials.iter().any(|trial| trial.environment == place.name), "{}: {run}", place.name);
    }
    let remarks: Vec<&String> = results
        .trials
        .iter()
        .filter(|trial| trial.environment == "host" && trial.metric.as_str() == "wakeup.idle")
        .flat_map(|trial| &trial.outcome.remarks)
        .collect();
    assert!(remarks.iter().any(|remark| remark.contains("SCHED_FIFO")), "{remarks:?}");
}

#[test]
fn wrong_usage_is_code_2_and_a_missed_gate_code_3() {
    for (arguments, words) in [
        (vec!["compare", "--environments", "hots"], "write host, container"),
        (vec!["compare", "--only", "cpu.nothing"], "some that begin like it are cpu."),
        (vec!["compare", "--cpus", "0-x"], "no list of CPUs"),
        (vec!["compare", "--output", "/nonexistent/r.json"], "cannot be written"),
        (vec!["compare", "--blocks", "0"], "not in 1..=1000"),
    ] {
        let run = Run::new(&arguments).finish();
        assert_eq!(run.code, Some(2), "{arguments:?}: {run}");
        assert!(run.stderr.contains(words), "{arguments:?}: {run}");
    }
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate.toml");
    for (limit, code) in [("0.0001", 3), ("1e15", 0)] {
        fs::write(
            &gate,
            format!("[[limit]]\nmetric = \"os.syscall\"\nenvironment = \"host\"\nmax = {limit}\n"),
        )
        .unwrap();
        let run = Run::new(&[
            "compare",
            "--quick",
            "--blocks",
            "1",
            "--only",
            "os.syscall",
            "--environments",
            "host",
        ])
        .arg("--gate")
        .arg(&gate)
        .env("XDG_STATE_HOME", folder.path())
        .finish();
        assert_eq!(run.code, Some(code), "{run}");
        assert!(run.stdout.contains("os.syscall"), "{run}");
    }
}

#[test]
fn a_program_of_the_users_is_a_workload_in_every_environment() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let file = folder.path().join("own.toml");
    // In the folder for temporary files, where a place of its own could hide it.
    let program = folder.path().join("program");
    fs::copy(tautline(), &program).unwrap();
    let text = format!(
        "[[workload]]\nname = \"version\"\ncommand = [\"{0}\", \"--version\"]\npattern = 'tautline ([0-9]+\\.[0-9]+)'\n\
         unit = \"versions\"\ndirection = \"higher_is_better\"\nfiles = [\"{0}\"]\n",
        program.display()
    );
    fs::write(&file, text).unwrap();
    let run = Run::new(&["compare", "--quick", "--blocks", "1", "--only", "external"])
        .arg("--workloads")
        .arg(&file)
        .arg("--output")
        .arg(&json)
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results = Results::load(&json).unwrap();
    let expected: f64 = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0.parse().unwrap();
    for name in ["host", "container", "vm"] {
        let trial = results.trials.iter().find(|trial| trial.environment == name && trial.verdict.counts());
        assert_eq!(trial.map(|trial| trial.outcome.value), Some(expected), "{name}: {run}");
    }
}

#[test]
fn doctor_names_every_capability() {
    let run = Run::new(&["doctor", "--format", "json"]).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let mut document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let found: Vec<capability::Capability> = serde_json::from_value(document["capabilities"].take()).unwrap();
    for id in ["kvm", "qemu", "container"].into_iter().chain(capability::NAMES) {
        let one =
            found.iter().find(|capability| capability.id == id).unwrap_or_else(|| panic!("{id}: {run}"));
        assert!(!one.detail.is_empty() && !one.enables.is_empty(), "{one:?}");
    }
    let state = |id: &str| found.iter().find(|capability| capability.id == id).unwrap().state;
    assert_eq!(state("qemu"), capability::State::Proven, "{run}");
    assert_eq!(state("container"), capability::State::Proven, "{run}");
    nothing_left(run.pid);
}
