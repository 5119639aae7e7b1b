//! `vm run --pv-sched`: a real guest says when its task is due, and then that it always runs.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::guest::{Files, kernel};
use super::threads::{of, two_cpus};
use crate::common::{Run, nothing_left, tautline, wait_until};

/// A task that says what is so, then one that is never done.
const INIT: &str = "#!/busybox sh
for kind in devtmpfs:/dev proc:/proc sysfs:/sys; do /busybox mount -t ${kind%:*} none ${kind#*:}; done
task() { /tautline --quiet vm task --format json \"$@\"; }
{
    echo begin
    task --interval 20ms --time 2s --work 200us
    echo lies
    task --interval 1ms --time 20ms --work 50ms
    echo end
} >/dev/ttyS0 2>&1
/busybox poweroff -f
";

/// Computes on a CPU until it is told to end; the CPU time that it got.
fn neighbour(cpu: usize, end: &AtomicBool) -> Duration {
    linux::cpus::bind(&[cpu]).unwrap();
    while !end.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// A thread's CPU time, in the kernel's ticks of 10 ms.
fn used(process: u32, thread: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields[14 - 3].parse::<u64>().ok()? + fields[15 - 3].parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

#[test]
fn a_guest_that_says_when_its_task_is_due_is_raised_for_it_and_no_further() {
    let (first, last) = two_cpus();
    let files = Files::with(INIT, &[("tautline", tautline())]);
    let end = Arc::<AtomicBool>::default();
    let mut run = Run::new(&["vm", "run", "--pv-sched", "--profile", "throughput", "--accel", "tcg"])
        .args(&["--vcpu-cpus", &last, "--housekeeping", &first, "--memory", "512M", "--quiet"])
        .args(&["--kernel", &kernel(), "--initrd", &files.text("initramfs")])
        .args(&["--append", "console=ttyS0 quiet panic=-1 no_timer_check"])
        .args(&["--serial", &files.text("serial"), "--output", &files.text("status.json")])
        .spawn();
    let process = files.status("running")["process"].as_u64().unwrap() as u32;
    let started = Instant::now();
    let vcpu = of(process).into_iter().find(|thread| thread.name == "CPU 0/TCG").unwrap();
    let says = |word: &str| files.read("serial").lines().any(|line| line.trim() == word);
    // All policies that it is seen with while its task says what is so.
    let mut seen = Vec::new();
    assert!(
        wait_until(|| {
            seen.extend(
                of(process)
                    .into_iter()
                    .find(|thread| thread.id == vcpu.id)
                    .map(|now| (now.policy, now.priority)),
            );
            seen.sort_unstable();
            seen.dedup();
            says("lies")
        }),
        "{}",
        files.read("serial")
    );
    // From here on the guest reports wrong hints, beside a thread that computes on its CPU.
    let spinner = {
        let (end, cpu) = (Arc::clone(&end), last.parse().unwrap());
        thread::spawn(move || neighbour(cpu, &end))
    };
    let before = used(process, vcpu.id).unwrap();
    let mut after = before;
    assert!(wait_until(|| {
        after = used(process, vcpu.id).unwrap_or(after);
        says("end") || !fs::exists(format!("/proc/{process}")).unwrap()
    }));
    end.store(true, Ordering::Relaxed);
    let (lied, honest) = (after - before, spinner.join().unwrap());
    let ended = run.finish();
    let elapsed = started.elapsed();
    assert_eq!(ended.code, Some(0), "{ended}");

    let serial = files.read("serial");
    let tasks: Vec<Value> =
        serial.lines().filter_map(|line| serde_json::from_str(line.trim()).ok()).collect();
    assert_eq!(tasks.len(), 2, "{serial}");
    assert_eq!((&tasks[0]["says"], &tasks[0]["runs"]), (&true.into(), &100.into()), "{serial}");
    assert!(tasks[0]["clock_error_ns"].as_u64().unwrap() > 0, "{serial}");

    let status = files.status("ended");
    let raised = &status["pv_sched"]["vcpus"][0];
    let number = |name: &str| raised[name].as_u64().unwrap_or_else(|| panic!("{status:#}"));
    println!("policies {seen:?}; the liar ran {lied:?}, its neighbour {honest:?}; {raised} in {elapsed:?}");
    println!("{}", files.read("serial"));
    assert_eq!(raised["failed"], Value::Null, "{status:#}");
    assert!(number("raised") >= 20, "{status:#}");
    assert!(number("exhausted") > 0, "it never wanted more than it got: {status:#}");
    // Its usual policy again and again, and no other than these two.
    assert!(seen.iter().all(|found| [(0, 0), (1, 1)].contains(found)) && seen.contains(&(0, 0)), "{seen:?}");
    // A fifth of the time, and the daemon may have been late on a busy machine.
    let part = number("raised_ns") as f64 / elapsed.as_nanos() as f64;
    assert!(part < 0.35, "raised for {part} of the time: {status:#}");
    // Both guests share four tenths of the CPU equally; a guest that is raised all the time leaves 5 %.
    assert!(honest.as_secs_f64() > 0.25 * (lied + honest).as_secs_f64(), "{lied:?} {honest:?}");
    nothing_left(ended.pid);
}

#[test]
fn a_dry_run_shows_the_page_and_the_limits() {
    let (first, last) = two_cpus();
    let run =
        Run::new(&["vm", "run", "--pv-sched", "--disk", "/none/disk.qcow2", "--dry-run", "--accel", "tcg"])
            .args(&["--vcpu-cpus", &last, "--housekeeping", &first])
            .finish();
    assert_eq!(run.code, Some(0), "{run}");
    for part in ["ivshmem-plain,memdev=shared", "size=4096", "raised to fifo 1, each for 2000 of 10000 µs"] {
        assert!(run.stdout.contains(part), "{part}: {run}");
    }
}
