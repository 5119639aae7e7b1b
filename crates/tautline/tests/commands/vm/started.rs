//! `vm run`.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use super::guest::{APPEND, Files, Monitor, kernel};
use super::threads::{Thread, of, status, two_cpus};
use crate::common::{Run, Started, nothing_left, signal, tautline, wait_until};

const MEMORY_MIB: u64 = 192;

fn start(files: &Files, further: &[&str]) -> Started {
    let (first, last) = two_cpus();
    let memory = format!("{MEMORY_MIB}M");
    Run::new(&["vm", "run", "--profile", "realtime-guest", "--priority", "3", "--accel", "tcg"])
        .args(&["--vcpu-cpus", &last, "--housekeeping", &first, "--memory", &memory])
        .args(&["--kernel", &kernel(), "--initrd", &files.text("initramfs"), "--append", APPEND])
        .args(&["--serial", &files.text("serial"), "--output", &files.text("status.json")])
        .args(further)
        .spawn()
}

fn find<'a>(threads: &'a [Thread], name: &str) -> Option<&'a Thread> {
    threads.iter().find(|thread| thread.name == name)
}

fn must(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

#[test]
fn every_thread_is_placed_followed_and_put_back_until_the_guest_shuts_down() {
    let (first, last) = two_cpus();
    let files = Files::make();
    let (qmp, line) = (files.path("qmp"), files.path("line"));
    let qmp_argument = format!("unix:{},server=on,wait=off", qmp.display());
    let line_argument = format!("unix:{},server=on,wait=off", line.display());
    let mut run = start(&files, &["--", "-qmp", &qmp_argument, "-serial", &line_argument]);

    let shown = files.status("running");
    let process = shown["process"].as_u64().unwrap() as u32;
    let check = || {
        let threads = of(process);
        let vcpu = find(&threads, "CPU 0/TCG").cloned();
        let placed = |thread: &Thread| match thread.name.as_str() {
            "CPU 0/TCG" => (thread.cpus.as_str(), thread.policy, thread.priority) == (last.as_str(), 1, 3),
            _ => (thread.cpus.as_str(), thread.policy) == (first.as_str(), 0),
        };
        vcpu.is_some() && threads.iter().all(placed)
    };
    // As soon as it says so.
    assert!(check(), "{:#?}", of(process));
    let locked = status(&format!("/proc/{process}"), "VmLck:").unwrap();
    let locked: u64 = locked.split(' ').next().unwrap().parse().unwrap();
    assert!(locked >> 10 >= MEMORY_MIB, "{locked} kB locked");
    // QEMU goes on, maps more and gives some back: what was said was so when it was said.
    let said = shown["memory_locked_mib"].as_u64().unwrap();
    let differ_mib = said.abs_diff(locked >> 10);
    assert!(said >= MEMORY_MIB && differ_mib <= 64, "{said} MiB said, {locked} kB locked");
    assert_eq!(shown["not_done"], json!([]), "{shown:#}");
    let own = status(&format!("/proc/{}", run.pid()), "Cpus_allowed_list:").unwrap();
    assert_eq!(own, first, "who looks after the guest keeps off its CPU");
    assert!(wait_until(|| files.read("serial").contains("up")), "{}", files.read("serial"));

    // Changed from outside.
    let vcpu = find(&of(process), "CPU 0/TCG").unwrap().id.to_string();
    must("chrt", &["--other", "--pid", "0", &vcpu]);
    assert!(wait_until(check), "{:#?}", of(process));
    must("taskset", &["--pid", "--cpu-list", &first, &vcpu]);
    assert!(wait_until(check), "{:#?}", of(process));

    // A thread that appears later, where it must not be: it inherits from the main thread.
    let mut monitor = Monitor::connect(&qmp);
    must("taskset", &["--pid", "--cpu-list", &last, &process.to_string()]);
    monitor.execute("object-add", &json!({ "qom-type": "iothread", "id": "late" }));
    assert!(wait_until(|| find(&of(process), "IO late").is_some()), "{:#?}", of(process));
    assert!(wait_until(check), "{:#?}", of(process));

    drop(monitor);
    UnixStream::connect(&line).unwrap().write_all(b"off\n").unwrap();
    let ended = run.finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    for part in
        ["somebody changed fifo 3 to other 0; put back", "vCPU 0, thread", "I/O thread", "Ended, profile"]
    {
        assert!(format!("{ended}").contains(part), "{part}: {ended}");
    }
    let shown = files.status("ended");
    assert!(shown["corrected"].as_u64().unwrap() >= 2, "{shown:#}");
    nothing_left(ended.pid);
}

#[test]
fn killed_or_interrupted_it_leaves_nothing() {
    for (how, code) in [(Signal::KILL, None), (Signal::INT, Some(130))] {
        let files = Files::make();
        let mut run = start(&files, &[]);
        let process = files.status("running")["process"].as_u64().unwrap();
        signal(run.pid(), how);
        let ended = run.finish();
        assert_eq!(ended.code, code, "{ended}");
        assert!(wait_until(|| !std::path::Path::new(&format!("/proc/{process}")).exists()));
        nothing_left(ended.pid);
    }
}

#[test]
fn a_dry_run_prints_qemus_command_line_and_each_threads_place() {
    let (first, last) = two_cpus();
    let run = Run::new(&[
        "vm",
        "run",
        "--disk",
        "/none/disk.qcow2",
        "--network",
        "vhost-user:/none/a",
        "--dry-run",
    ])
    .args(&["--profile", "realtime-guest", "--vcpu-cpus", &last, "--housekeeping", &first, "--accel", "tcg"])
    .finish();
    assert_eq!(run.code, Some(0), "{run}");
    for part in ["format=qcow2", "vhost-user,id=net0", "mem-lock=on", "vCPU 0", "fifo 1", "vhost worker"] {
        assert!(run.stdout.contains(part), "{part}: {run}");
    }
    assert!(tautline().exists());
    nothing_left(run.pid);
}
