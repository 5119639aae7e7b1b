//! System calls of a frame: TAPs beside interfaces of VDUSE.

use std::collections::BTreeMap;

use super::lab::Lab;

/// Pings of a short and of a long time under strace. What a time itself takes is in both.
const PINGS: [u32; 2] = [20, 170];

/// How a worker sleeps, is woken by an eventfd, and interrupts a driver.
const OF_SLEEP_AND_INTERRUPTS: [&str; 4] = ["epoll_pwait", "epoll_pwait2", "preadv2", "ioctl"];

/// The calls of a switch by name: all calls, and those without an error.
type Calls = BTreeMap<String, [u64; 2]>;

/// The calls of a frame.
#[derive(Debug)]
pub struct PerFrame {
    /// All calls. Calls that find no frame depend on the load of the machine.
    all: f64,
    /// Calls with which a TAP takes a frame (`writev`).
    writes: f64,
    /// Calls that may bring a frame of a TAP (`read` without an error). Eventfds are read too.
    reads: f64,
    /// Calls that interrupt a driver of VDUSE.
    interrupts: f64,
    /// Calls that neither interrupt a driver, nor wait, nor read an eventfd.
    others: f64,
}

/// Counts with two TAPs: each frame takes a call to read it and one to write it.
pub fn of_taps(lab: &Lab) -> PerFrame {
    lab.must(
        "switch --port near=tap:near0 --port far=tap:far0
         until_true ls -d /sys/class/net/near0 /sys/class/net/far0 || failed no interface
         ip netns add there; ip link set far0 netns there
         ip address add 10.77.0.1/24 dev near0 && ip link set near0 up
         ip -n there address add 10.77.0.2/24 dev far0 && ip -n there link set far0 up; echo near0 >/run/near
         until_true ping -c 1 -W 1 10.77.0.2 || failed no answer",
    );
    let tap = per_frame(lab);
    println!("TAP: {:.2} calls of a frame, {:.2} writes, {:.2} reads", tap.all, tap.writes, tap.reads);
    assert!((tap.writes - 1.0).abs() < 0.05 && tap.reads > 0.95, "{} {}", tap.writes, tap.reads);
    lab.end();
    tap
}

/// Counts with interfaces of VDUSE, which run already: no frame takes a call to move it. The few other calls are those of the
/// control thread, more of them on a busy machine. The table in docs/what-does-a-packet-cost.md has the counts.
pub fn compare(lab: &Lab, layout: &str, tap: &PerFrame) {
    let vduse = per_frame(lab);
    let PerFrame { all, interrupts, others, .. } = vduse;
    println!("VDUSE, {layout}: {all:.2} calls of a frame, {interrupts:.2} interrupts (TAP {:.2})", tap.all);
    assert!(vduse.writes == 0.0 && interrupts > 0.0 && others < 0.5, "{vduse:?}");
}

/// The difference between a long and a short time, divided by the frames between them.
fn per_frame(lab: &Lab) -> PerFrame {
    let [(few_frames, few), (frames, calls)] = PINGS.map(|pings| counted(lab, pings));
    println!("{few_frames} frames: {few:?}, {frames} frames: {calls:?}");
    assert!(frames >= few_frames + 2 * u64::from(PINGS[1] - PINGS[0]) - 10, "{frames} {few_frames}");
    let more = (frames - few_frames) as f64;
    let of = |name: &str, at: usize| {
        let count = |calls: &Calls| calls.get(name).map_or(0, |counts| counts[at]) as f64;
        (count(&calls) - count(&few)) / more
    };
    let others = calls.keys().filter(|name| !OF_SLEEP_AND_INTERRUPTS.contains(&name.as_str()));
    PerFrame {
        all: calls.keys().map(|name| of(name, 0)).sum(),
        writes: of("writev", 1),
        reads: of("read", 1),
        interrupts: of("ioctl", 1),
        others: others.map(|name| of(name, 0)).sum(),
    }
}

/// The frames that have passed the switch, one at a time, and its calls meanwhile.
fn counted(lab: &Lab, pings: u32) -> (u64, Calls) {
    let said = lab.must(&format!(
        "near=/sys/class/net/$(cat /run/near)/statistics
         frames() {{ echo $(($(cat $near/rx_packets) + $(cat $near/tx_packets))); }}
         strace -f -c -o /run/calls -p $(cat /run/pid) >/dev/null 2>/run/strace </dev/null & tracer=$!
         until_true grep -q attached /run/strace || {{ cat /run/strace; failed no strace; }}
         before=$(frames); ping -q -A -c {pings} -W 10 10.77.0.2 >/run/said || failed ping
         echo $(($(frames) - before))
         kill $tracer; until_true ended $tracer || failed strace is still there; cat /run/calls"
    ));
    let (frames, table) = said.split_once('\n').unwrap();
    // Lines of % time, seconds, usecs/call, calls, perhaps errors, and the name.
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first()?.parse::<f64>().ok()?;
        let calls: u64 = words.get(3)?.parse().ok()?;
        let errors: u64 = if words.len() == 6 { words[4].parse().ok()? } else { 0 };
        let name = *words.last()?;
        (name != "total").then(|| (name.to_owned(), [calls, calls - errors]))
    };
    let calls: Calls = table.lines().filter_map(row).collect();
    assert!(!calls.is_empty(), "{said}");
    (frames.trim().parse().unwrap(), calls)
}
