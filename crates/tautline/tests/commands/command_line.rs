//! docs/cli.md holds for every command: one meaning of each option, durations with units, exit codes that are told.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use crate::common::{Run, nothing_left, wait_until};
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};
use rustix::process::Signal;
use serde_json::Value;

/// Commands that print results.
const PRINT_RESULTS: &[&str] = &[
    "scenario",
    "torture",
    "tti",
    "doctor",
    "compare",
    "switch",
    "ctl ports",
    "ctl stats",
    "ctl drops",
    "ctl rings",
    "ctl watch",
    "ctl add",
    "ctl apply",
    "ctl remove",
    "ctl mirror",
    "ctl flows add",
    "ctl flows del",
    "ctl flows dump",
    "ctl flows replace",
    "ctl flows trace",
    "rfc2544",
    "report",
    "kvm costs",
    "kvm trace",
    "kvm path",
    "kvm worst",
    "crypto bench",
    "host audit",
    "host plan",
    "host apply",
    "host undo",
    "host verify",
    "host interrupts",
    "vm run",
    "vm attach",
    "vm detach",
    "vm task",
];
/// Commands that print none: what they write is for a shell, for packagers or for other tools, or tells what they do.
const PRINT_NONE: &[&str] =
    &["agent keys", "completions", "man", "ctl capture", "ctl events", "host export", "vdpa"];

/// All commands by name, with what they have from the program itself.
fn commands() -> BTreeMap<String, Command> {
    let mut program = crate::cli::Cli::command().disable_help_subcommand(true);
    program.build();
    let mut commands = BTreeMap::new();
    let mut unread = vec![(String::new(), program)];
    while let Some((path, command)) = unread.pop() {
        for inner in command.get_subcommands() {
            unread.push((format!("{path} {}", inner.get_name()).trim_start().to_owned(), inner.clone()));
        }
        if !command.has_subcommands() {
            commands.insert(path, command);
        }
    }
    commands
}

fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|argument| argument.get_long() == Some(name))
}

/// What an option promises.
fn described(argument: &Arg) -> String {
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    format!("{:?} {values:?} {:?}", argument.get_value_names(), argument.get_help().map(ToString::to_string))
}

#[test]
fn every_command_prints_results_in_the_same_way_or_is_known_to_print_none() {
    let commands = commands();
    for name in commands.keys() {
        let lists = [PRINT_RESULTS.contains(&name.as_str()), PRINT_NONE.contains(&name.as_str())];
        assert!(lists[0] != lists[1], "{name}: say in one of the two lists above whether it prints results");
    }
    for name in ["format", "output", "gate", "limit"] {
        // An audit's limits are its rules: there is no file of them.
        let own = |path: &str| PRINT_NONE.contains(&path) || (path, name) == ("host audit", "gate");
        let commands = commands.iter().filter(|(path, _)| !own(path));
        let having = commands.filter_map(|(path, command)| Some((path, option(command, name)?)));
        let described: BTreeMap<_, _> =
            having.map(|(path, argument)| (path.as_str(), described(argument))).collect();
        let first = described.values().next().unwrap_or_else(|| panic!("nobody has --{name}"));
        assert!(described.values().all(|other| other == first), "--{name} has one meaning: {described:#?}");
        if !["gate", "limit"].contains(&name) {
            assert!(
                PRINT_RESULTS.iter().all(|command| described.contains_key(*command)),
                "--{name}: {described:#?}"
            );
        }
    }
    for name in PRINT_RESULTS {
        let format = option(&commands[*name], "format").unwrap();
        let values: Vec<_> =
            format.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(values, ["text", "json"], "{name}");
    }
}

#[test]
fn every_command_and_every_option_has_help() {
    for (path, command) in commands() {
        assert!(command.get_about().is_some(), "{path} says what it does");
        for argument in command.get_arguments() {
            let told = argument.get_help().is_some_and(|help| !help.to_string().trim().is_empty());
            assert!(told, "{path}: {} has no help", argument.get_id());
            assert!(!argument.is_hide_set(), "{path}: {} is hidden", argument.get_id());
        }
        for name in ["color", "quiet", "verbose"] {
            assert!(option(&command, name).is_some(), "{path} takes no --{name}");
        }
    }
}

#[test]
fn durations_have_units() {
    let mut durations = 0;
    for (path, command) in commands() {
        for argument in command.get_arguments() {
            let Some(name) = argument.get_long() else { continue };
            let ends = |word: &str| name.ends_with(&format!("-{word}"));
            assert!(
                !["ns", "us", "ms", "s", "sec", "seconds"].iter().any(|unit| ends(unit)),
                "{path} --{name}"
            );
            let placeholders: Vec<&str> =
                argument.get_value_names().unwrap_or_default().iter().map(|word| word.as_str()).collect();
            let unit = |word: &&str| ["NS", "US", "MS", "S", "SECONDS", "TIME"].contains(word);
            assert!(!placeholders.iter().any(unit), "{path} --{name} takes a number without a unit");
            if placeholders == ["DURATION"] {
                durations += 1;
                for value in ["5", "1.5", "10 parsecs", "-1s", "s"] {
                    let written = [vec!["tautline"], path.split(' ').collect()].concat();
                    let option = format!("--{name}={value}");
                    let result = crate::cli::Cli::command()
                        .try_get_matches_from(written.into_iter().chain([option.as_str()]));
                    assert_eq!(result.unwrap_err().kind(), ErrorKind::ValueValidation, "{path} {option}");
                }
            }
        }
    }
    assert!(durations >= 6, "only {durations} options take a DURATION");
}

#[test]
fn help_tells_the_exit_codes() {
    let mut helps = vec![vec!["--help"], vec!["-h"]];
    let commands = commands();
    for path in commands.keys() {
        helps.push(path.split(' ').chain(["--help"]).collect());
        helps.push(path.split(' ').chain(["-h"]).collect());
    }
    for arguments in helps {
        let run = Run::new(&arguments).finish();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
        for code in ["0 success", "1 error", "2 usage", "3 threshold exceeded", "130 interrupted"] {
            assert!(run.stdout.contains(code), "{arguments:?} does not tell {code:?}: {run}");
        }
    }
}

/// A run of `compare` that takes a second or two.
const SHORT: [&str; 9] =
    ["compare", "--quick", "--blocks", "1", "--environments", "host", "--only", "os.syscall", "--quiet"];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn results_go_where_output_says_and_look_as_format_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let saved = file("r.json");
    let run = Run::new(&SHORT).args(&["--output", &saved]).finish();
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(json(&fs::read_to_string(&saved).unwrap())["schema"], "tautline-compare/1");
    assert!(run.stdout.contains("system call") && !run.stdout.contains('\x1b'), "{run}");
    assert_eq!(run.stderr, "", "quiet: {run}");

    let printed = Run::new(&SHORT).args(&["--format", "json"]).finish();
    assert_eq!(printed.code, Some(0), "{printed}");
    assert_eq!(json(&printed.stdout)["schema"], "tautline-compare/1");

    // The same results by `report`, in each way.
    let report = |arguments: &[&str]| {
        let run = Run::new(&["report", &saved]).args(arguments).finish();
        assert_eq!(run.code, Some(0), "{run}");
        run
    };
    let text = report(&[]).stdout;
    assert_eq!(text, run.stdout, "redrawn, the table is the same");
    assert_eq!(report(&["--format", "text", "--output", "-"]).stdout, text);
    assert_eq!(json(&report(&["--format", "json"]).stdout), json(&fs::read_to_string(&saved).unwrap()));
    report(&["--format", "text", "--output", &file("r.txt")]);
    assert_eq!(fs::read_to_string(file("r.txt")).unwrap(), text);
    report(&["--format", "json", "--output", &file("again")]);
    assert_eq!(json(&fs::read_to_string(file("again")).unwrap()), json(&fs::read_to_string(&saved).unwrap()));
    let two = report(&[&saved, "--format", "json"]).stdout;
    assert!(json(&two)["schema"].is_string(), "{two}");
}

#[test]
fn colour_is_as_the_user_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("r.json");
    let run = Run::new(&SHORT).arg("--output").arg(&saved).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let coloured = |color: &str, no_color: &str| {
        let run = Run::new(&["report", "--color", color]).arg(&saved).env("NO_COLOR", no_color).finish();
        assert_eq!(run.code, Some(0), "{run}");
        run.stdout.contains('\x1b')
    };
    // The output of a test is no terminal.
    assert!(!coloured("auto", "") && !coloured("auto", "1"));
    assert!(!coloured("never", ""));
    assert!(coloured("always", "") && coloured("always", "1"), "what is said on the command line wins");
}

#[test]
fn compare_lists_what_it_would_measure() {
    let text = Run::new(&["compare", "--list"]).finish();
    assert_eq!(text.code, Some(0), "{text}");
    for part in ["host", "container", "vm", "cpu", "memory", "os.syscall", "wakeup.idle", "ns"] {
        assert!(text.stdout.contains(part), "{part}: {text}");
    }
    let list = Run::new(&["compare", "--list", "--format", "json", "--only", "os"]).finish();
    assert_eq!(list.code, Some(0), "{list}");
    let list = json(&list.stdout);
    let metrics = list["metrics"].as_array().unwrap();
    assert!(metrics.len() > 5 && metrics.iter().all(|metric| metric["group"] == "os"), "{list}");
    assert!(
        metrics.iter().all(|metric| ["id", "title", "unit"].iter().all(|key| metric[key].is_string())),
        "{list}"
    );
}

#[test]
fn doctor_requires_what_is_asked_for() {
    let run =
        Run::new(&["doctor", "--format", "json", "--require", "qemu", "--require", "container"]).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let document = json(&run.stdout);
    assert!(document["schema"].is_string(), "{run}");
    nothing_left(run.pid);

    let unknown = Run::new(&["doctor", "--require", "telepathy"]).finish();
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("telepathy") && unknown.stderr.contains("qemu"), "{unknown}");

    // QEMU cannot be found: its own fix is told.
    let empty = tempfile::tempdir().unwrap();
    let lacking = Run::new(&["doctor", "--require", "qemu"]).env("PATH", empty.path()).finish();
    assert_eq!(lacking.code, Some(3), "{lacking}");
    assert!(lacking.stderr.contains("qemu") && lacking.stderr.contains("install"), "{lacking}");
    nothing_left(lacking.pid);
}

#[test]
fn completions_and_man_pages_know_every_command() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = Run::new(&["completions", shell]).finish();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
        for word in commands.keys().flat_map(|name| name.split(' ')) {
            assert!(run.stdout.contains(word), "{shell} does not know {word}");
        }
        if shell == "bash" {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("completions");
            fs::write(&file, &run.stdout).unwrap();
            assert!(Process::new("bash").arg("-n").arg(&file).status().unwrap().success());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(&["man"]).arg(folder.path()).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let page = |name: &str| fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
    assert!(page("tautline").contains(".TH"));
    for (path, command) in &commands {
        let page = page(&format!("tautline-{}", path.replace(' ', "-")));
        assert!(page.contains("130 interrupted"), "{path}");
        for name in command
            .get_arguments()
            .filter_map(Arg::get_long)
            .filter(|name| !["help", "version"].contains(name))
        {
            assert!(page.contains(&name.replace('-', "\\-")), "the page of {path} does not know --{name}");
        }
    }
}

/// Commands that are over in a moment: a signal ends them as it ends any program.
const MOMENTARY: &[&str] = &[
    "agent keys",
    "completions",
    "ctl add",
    "ctl apply",
    "ctl drops",
    "ctl flows add",
    "ctl flows del",
    "ctl flows dump",
    "ctl flows replace",
    "ctl flows trace",
    "ctl mirror",
    "ctl ports",
    "ctl remove",
    "ctl rings",
    "ctl stats",
    "host apply",
    "host audit",
    "host export",
    "host plan",
    "host undo",
    "man",
    "report",
    "vm attach",
    "vm detach",
];
/// Commands that need a guest to look at, or to be in one, or a vDPA device: they are not started here.
const NOT_STARTED: &[&str] =
    &["host interrupts", "host verify", "kvm costs", "kvm path", "kvm trace", "kvm worst", "vdpa", "vm task"];

/// A command that runs longer than a moment, as it is started here.
struct Long {
    /// As [`commands`] names it.
    name: &'static str,
    arguments: Vec<String>,
    /// A file that exists once the command is at work. Without such a file, the command is at work once it has its own
    /// answer to SIGINT.
    ready: Option<PathBuf>,
    /// Its exit code after SIGTERM.
    terminated: i32,
}

fn long_commands(folder: &Path, switch: &Path, control: &Path, crypto: &Path) -> Vec<Long> {
    let path = |name: &str| folder.join(name).display().to_string();
    let control = control.display().to_string();
    let (port, nobody) = (switch.display(), path("nobody"));
    let long = |name, line: &[&str], ready: Option<&str>, terminated| Long {
        name,
        arguments: line.iter().map(|word| (*word).to_owned()).collect(),
        ready: ready.map(|name| folder.join(name)),
        terminated,
    };
    let kernel = environment::vm::find_kernel().unwrap().display().to_string();
    vec![
        long("agent", &["agent", "--listen", "127.0.0.1:0", "--key", &path("keys/far.pem")], None, 0),
        long("compare", &["compare", "--quick", "--blocks", "500", "--only", "os.syscall"], None, 130),
        long("crypto", &["crypto", "--port", &format!("c=vhost-user:{}", path("c"))], Some("c"), 0),
        long(
            "crypto bench",
            &["crypto", "bench", "--to", &format!("virtio-user:{}", crypto.display()), "--blocks", "1000"],
            None,
            130,
        ),
        long("ctl capture", &["ctl", &control, "capture", "a", "--output", &path("a.pcapng")], None, 130),
        long("ctl events", &["ctl", &control, "events"], None, 130),
        long("ctl watch", &["ctl", &control, "watch"], None, 130),
        long("doctor", &["doctor"], None, 130),
        long(
            "rfc2544",
            &["rfc2544", "--from", &format!("virtio-user:{nobody}"), "--timeout", "60s"],
            None,
            130,
        ),
        long(
            "scenario",
            &["scenario", "base-station", "--users", "2", "--time", "1h", "--environments", "host"],
            None,
            130,
        ),
        long("switch", &["switch", "--port", &format!("b=vhost-user:{}", path("b"))], Some("b"), 0),
        long("torture", &["torture", &format!("vhost-user:{port}"), "--count", "1000000000"], None, 130),
        long("tti", &["tti", "--time", "1h", "--environments", "host", "--load", "none"], None, 130),
        long(
            "vm run",
            &[
                "vm",
                "run",
                "--kernel",
                &kernel,
                "--accel",
                "tcg",
                "--profile",
                "plain",
                "--output",
                &path("vm"),
            ],
            Some("vm"),
            130,
        ),
    ]
}

#[test]
fn a_signal_ends_every_command_with_the_code_that_is_told_and_leaves_nothing() {
    let (folder, of_switch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [port, control, crypto] = ["a", "control", "c"].map(|name| of_switch.path().join(name));
    let mut switch = Run::new(&["switch", "--port", &format!("a=vhost-user:{}", port.display())])
        .args(&["--control", &control.display().to_string()])
        .spawn();
    let mut device = Run::new(&["crypto", "--port", &format!("c=vhost-user:{}", crypto.display())]).spawn();
    assert!(wait_until(|| control.exists() && crypto.exists()));
    let keys = folder.path().join("keys").display().to_string();
    assert_eq!(Run::new(&["agent", "keys", "--folder", &keys]).finish().code, Some(0));
    let long = long_commands(folder.path(), &port, &control, &crypto);
    for name in commands().keys() {
        let lists = [
            long.iter().any(|one| one.name == name),
            MOMENTARY.contains(&name.as_str()),
            NOT_STARTED.contains(&name.as_str()),
        ];
        assert_eq!(lists.iter().filter(|list| **list).count(), 1, "{name}: say here how long it runs");
    }
    for Long { arguments, ready, terminated, .. } in &long {
        for (end, code) in [(Signal::INT, 130), (Signal::TERM, *terminated)] {
            let mut run =
                Run::new(&[]).args(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
            let pid = run.pid();
            let is_ready = || catches_sigint(pid) && ready.as_ref().is_none_or(|path| path.exists());
            assert!(wait_until(is_ready), "{arguments:?}");
            crate::common::signal(pid, end);
            let run = run.finish();
            assert_eq!(run.code, Some(code), "{arguments:?} after {end:?}: {run}");
            nothing_left(run.pid);
            ready.iter().for_each(|path| _ = fs::remove_file(path));
        }
    }
    for service in [&mut switch, &mut device] {
        crate::common::signal(service.pid(), Signal::TERM);
        let ended = service.finish();
        assert_eq!(ended.code, Some(0), "{ended}");
    }
    assert_eq!(fs::read_dir(of_switch.path()).unwrap().count(), 0, "sockets are left");
}

/// Whether a process has its own answer to SIGINT.
fn catches_sigint(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or("0");
    let has = |mask: &str| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 0b10 != 0);
    has(caught) || has(blocked)
}
