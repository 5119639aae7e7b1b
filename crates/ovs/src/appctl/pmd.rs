//! The workers as packet threads of Open vSwitch: `dpif-netdev/pmd-rxq-show`, `dpif-netdev/pmd-perf-show`,
//! `dpif-netdev/pmd-stats-show`.
//!
//! Workers measure nanoseconds, which stand where Open vSwitch has cycles: as of a clock of 1 GHz. The time of one queue
//! is not measured; it is the worker's time in proportion to the queue's frames.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use control::Request;
use serde_json::Value;

use super::history::{Sample, list};
use super::room::Room;

/// Seconds that the samples span.
const SECONDS: usize = 60;

/// A queue from a guest that runs.
struct Queue {
    port: String,
    pair: u64,
    worker: usize,
}

fn queues(rings: &Value) -> Vec<Queue> {
    let queue = |ring: &Value| {
        let runs = ring["runs"] == true && ring["from_guest"] == true;
        let worker = ring["worker"].as_u64().filter(|_| runs)? as usize;
        Some(Queue { port: ring["port"].as_str()?.to_owned(), pair: ring["pair"].as_u64()?, worker })
    };
    let mut queues: Vec<Queue> = list(rings, "rings").filter_map(queue).collect();
    queues.sort_by(|one, other| (&one.port, one.pair).cmp(&(&other.port, other.pair)));
    queues
}

fn percent(part: u64, of: u64) -> u64 {
    (100 * u128::from(part)).checked_div(u128::from(of)).unwrap_or(0).min(100) as u64
}

/// `pmd-rxq-show`: the queues of each worker, and the share of its time that they take.
pub fn queues_of_workers(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let now = Sample::of(&room.counters()?);
    let queues = queues(&room.ask(Request::Rings)?);
    let before = room.history.oldest();
    Ok(shown(&room.cpus, &queues, &before, &now))
}

fn shown(cpus: &[usize], queues: &[Queue], before: &Sample, now: &Sample) -> String {
    let mut said = format!("Displaying last {SECONDS} seconds pmd usage %\n");
    let since = |now: &[u64], before: &[u64], at: usize| {
        now.get(at).copied().unwrap_or(0).saturating_sub(before.get(at).copied().unwrap_or(0))
    };
    let frames = |queue: &Queue| {
        let place = (queue.port.clone(), queue.pair);
        let of = |sample: &Sample| sample.frames.get(&place).copied().unwrap_or(0);
        of(now).saturating_sub(of(before))
    };
    for worker in 0..now.all.len() {
        let _ = writeln!(
            said,
            "pmd thread numa_id 0 core_id {}:\n  isolated : false",
            cpus.get(worker).copied().unwrap_or(worker)
        );
        let own = || queues.iter().filter(|queue| queue.worker == worker);
        let all_frames: u64 = own().map(frames).sum();
        let busy = percent(since(&now.busy, &before.busy, worker), since(&now.all, &before.all, worker));
        for queue in own() {
            let usage = busy * percent(frames(queue), all_frames) / 100;
            let _ = writeln!(
                said,
                "  port: {:<16}  queue-id: {:>2} (enabled)   pmd usage: {usage:>2} %",
                queue.port, queue.pair
            );
        }
        let overhead = if all_frames == 0 { busy } else { 0 };
        let _ = writeln!(said, "  overhead: {overhead:>2} %");
    }
    said
}

/// `pmd-perf-show`: what each worker has done since the start.
pub fn performance(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let counters = room.counters()?;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = counters["seconds"].as_f64().unwrap_or(0.0);
    let mut said = String::new();
    for (at, worker) in list(&counters, "workers").enumerate() {
        let (second, millis) = (clock.as_secs(), clock.subsec_millis());
        let _ = writeln!(
            said,
            "\nTime: {:02}:{:02}:{:02}.{millis:03}\nMeasurement duration: {seconds:.3} s\n",
            second / 3600 % 24,
            second / 60 % 60,
            second % 60
        );
        let core = room.cpus.get(at).copied().unwrap_or(at);
        let _ = writeln!(said, "pmd thread numa_id 0 core_id {core}:\n");
        said += &work(worker, seconds);
    }
    Ok(said)
}

/// The lines of one worker.
fn work(worker: &Value, seconds: f64) -> String {
    let number = |field: &str| worker[field].as_u64().unwrap_or(0);
    let per = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    let share = |part: u64, of: u64| per(100.0 * part as f64, of as f64);
    let (busy, idle, asleep) = (number("busy_ns"), number("spinning_ns"), number("asleep_ns"));
    let (used, all) = (busy + idle, busy + idle + asleep);
    let (moved, empty) = (number("passes_moved"), number("passes_empty"));
    let passes = moved + empty;
    let (frames, copies, flooded) = (number("frames"), number("copies"), number("flooded"));
    let mut said = String::new();
    let mut line = |name: &str, count: u64, more: String| {
        let _ = writeln!(said, "  {name:<19} {count:>12}  ({more})");
    };
    line("Iterations:", passes, format!("{:.2} us/it", per(used as f64 / 1e3, passes as f64)));
    line("- Used TSC cycles:", used, format!("{:5.1} % of total cycles", share(used, all)));
    line("- idle iterations:", empty, format!("{:5.1} % of used cycles", share(idle, used)));
    line("- busy iterations:", moved, format!("{:5.1} % of used cycles", share(busy, used)));
    line(
        "- sleep iterations:",
        number("sleeps"),
        format!("{:5.1} % of iterations", share(number("sleeps"), passes)),
    );
    let sleep = asleep as f64 / 1e3;
    line("Sleep time (us):", asleep / 1000, format!("{:3.0} us/iteration avg.", per(sleep, passes as f64)));
    let rate = |frames: u64| per(frames as f64, seconds) / 1e3;
    if frames > 0 {
        let cycles = per(busy as f64, frames as f64);
        line("Rx packets:", frames, format!("{:.0} Kpps, {cycles:.0} cycles/pkt", rate(frames)));
        line("Datapath passes:", frames, "1.00 passes/pkt".to_owned());
        for cache in ["- PHWOL hits:", "- MFEX Opt hits:", "- Simple Match hits:"] {
            line(cache, 0, "  0.0 %".to_owned());
        }
        let known = frames.saturating_sub(flooded);
        line("- EMC hits:", known, format!("{:5.1} %", share(known, frames)));
        line("- SMC hits:", 0, "  0.0 %".to_owned());
        line("- Megaflow hits:", 0, "  0.0 %, 0.00 subtbl lookups/hit".to_owned());
        line("- Upcalls:", flooded, format!("{:5.1} %, 0.0 us/upcall", share(flooded, frames)));
        line("- Lost upcalls:", 0, "  0.0 %".to_owned());
    } else {
        let _ = writeln!(said, "  {:<19} {:>12}", "Rx packets:", 0);
    }
    let _ = writeln!(said, "  {:<19} {copies:>12}  ({:.0} Kpps)", "Tx packets:", rate(copies));
    said
}

/// `pmd-stats-show`: counts of each worker since the start.
pub fn statistics(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let counters = room.counters()?;
    let mut said = String::new();
    for (at, worker) in list(&counters, "workers").enumerate() {
        let core = room.cpus.get(at).copied().unwrap_or(at);
        let _ = write!(said, "pmd thread numa_id 0 core_id {core}:\n{}", counts(worker));
    }
    Ok(said)
}

/// The lines of one worker. A frame to a known address is a hit of the cache of exact matches, as in `pmd-perf-show`.
fn counts(worker: &Value) -> String {
    let number = |field: &str| worker[field].as_u64().unwrap_or(0);
    let (frames, flooded) = (number("frames"), number("flooded"));
    let (busy, idle) = (number("busy_ns"), number("spinning_ns"));
    let per = |part: u64| if frames > 0 { part as f64 / frames as f64 } else { 0.0 };
    let share = |part: u64| if busy + idle > 0 { 100.0 * part as f64 / (busy + idle) as f64 } else { 0.0 };
    let mut said = format!(
        "  packets received: {frames}\n  packet recirculations: 0\n  avg. datapath passes per packet: {:.2}\n  \
         phwol hits: 0\n  mfex opt hits: 0\n  simple match hits: 0\n  emc hits: {}\n  smc hits: 0\n  \
         megaflow hits: 0\n  avg. subtable lookups per megaflow hit: 0.00\n  \
         miss with success upcall: {flooded}\n  miss with failed upcall: 0\n",
        per(frames),
        frames.saturating_sub(flooded)
    );
    if busy + idle > 0 {
        let _ = writeln!(said, "  idle cycles: {idle} ({:.2}%)", share(idle));
        let _ = writeln!(said, "  processing cycles: {busy} ({:.2}%)", share(busy));
    }
    if frames > 0 {
        let (all, busy_of_one) = (per(busy + idle), per(busy));
        let _ = writeln!(said, "  avg cycles per packet: {all:.2} ({}/{frames})", busy + idle);
        let _ = writeln!(said, "  avg processing cycles per packet: {busy_of_one:.2} ({busy}/{frames})");
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn counters(busy: u64, frames: [u64; 2]) -> Value {
        let queue = |frames| json!({"from_guest": true, "pair": 0, "frames": frames});
        json!({"seconds": 10.0,
            "workers": [{"busy_ns": busy, "spinning_ns": 100, "asleep_ns": 900 - busy, "passes_moved": 4, "frames": 8}],
            "ports": [{"name": "a", "queues": [queue(frames[0]), {"from_guest": false}]},
                      {"name": "b", "queues": [queue(frames[1])]}]})
    }

    #[test]
    fn the_time_of_a_worker_is_divided_by_frames() {
        let ring = |port, from_guest| json!({"port": port, "pair": 0, "from_guest": from_guest, "runs": true, "worker": 0});
        let rings = json!({"rings": [ring("b", true), ring("a", true), ring("a", false)]});
        let [before, now] =
            [counters(0, [10, 10]), counters(500, [40, 20])].map(|counters| Sample::of(&counters));
        let said = shown(&[7], &queues(&rings), &Sample::default(), &now);
        let expected = "Displaying last 60 seconds pmd usage %\n\
             pmd thread numa_id 0 core_id 7:\n  isolated : false\n  \
             port: a                 queue-id:  0 (enabled)   pmd usage: 33 %\n  \
             port: b                 queue-id:  0 (enabled)   pmd usage: 16 %\n  overhead:  0 %\n";
        assert_eq!(said, expected);
        // The sum of all times does not change in this sample: nothing is known.
        let said = shown(&[], &queues(&rings), &before, &now);
        assert!(said.contains("core_id 0") && said.contains("pmd usage:  0 %"), "{said}");
    }

    #[test]
    fn work_has_the_lines_of_open_vswitch() {
        let said = work(&counters(500, [1, 1])["workers"][0], 10.0);
        for line in [
            "  Iterations:                    4  (0.15 us/it)\n",
            "  - busy iterations:             4  ( 83.3 % of used cycles)\n",
            "  Rx packets:                    8  (0 Kpps, 62 cycles/pkt)\n",
        ] {
            assert!(said.contains(line), "{line}{said}");
        }
        let said = counts(&counters(500, [1, 1])["workers"][0]);
        for line in [
            "  packets received: 8\n",
            "  emc hits: 8\n",
            "  processing cycles: 500 (83.33%)\n",
            "  avg cycles per packet: 75.00 (600/8)\n",
            "  avg processing cycles per packet: 62.50 (500/8)\n",
        ] {
            assert!(said.contains(line), "{line}{said}");
        }
        assert!(counts(&json!({})).ends_with("  miss with failed upcall: 0\n"));
        assert!(work(&json!({}), 0.0).contains("  Rx packets:                    0\n"));
    }
}
