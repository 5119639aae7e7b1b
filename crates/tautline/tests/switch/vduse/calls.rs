//! System calls and copies of a frame: TAPs beside interfaces of VDUSE.

use std::collections::BTreeMap;

use super::lab::Lab;

/// Pings of a short and of a long time under strace. What a time itself takes is in both.
const PINGS: [u32; 2] = [20, 170];

/// How a worker sleeps, is woken by an eventfd, and interrupts a driver.
const OF_SLEEP_AND_INTERRUPTS: [&str; 4] = ["epoll_pwait", "epoll_pwait2", "preadv2", "ioctl"];

/// The calls of a switch by name: all calls, and those without an error.
type Calls = BTreeMap<String, [u64; 2]>;

/// What happens between two instants.
struct Counted {
    /// The frames that have passed the switch.
    frames: u64,
    /// The copies between the kernel's memory and a bounce area.
    bounces: u64,
    /// The frames that the switch has given to its ports.
    delivered: u64,
    calls: Calls,
}

/// The calls and copies of a frame.
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
    /// The kernel's copies into a bounce area and out of one, which a probe of the function counts.
    bounces: f64,
    /// The switch's own count of frames that it has given to a port. It copies a frame into a ring, and not to a TAP.
    delivered: f64,
}

/// Counts with two TAPs: each frame takes a call to read it and one to write it, and the kernel copies it in both. `copies`
/// is what `compare` states.
pub fn of_taps(lab: &Lab, copies: u32) -> PerFrame {
    lab.must(
        "count_bounces
         switch --port near=tap:near0 --port far=tap:far0
         until_true ls -d /sys/class/net/near0 /sys/class/net/far0 || failed no interface
         ip netns add there; ip link set far0 netns there
         ip address add 10.77.0.1/24 dev near0 && ip link set near0 up
         ip -n there address add 10.77.0.2/24 dev far0 && ip -n there link set far0 up; echo near0 >/run/near
         until_true ping -c 1 -W 1 10.77.0.2 || failed no answer",
    );
    let tap = per_frame(lab);
    println!("TAP: {:.2} calls of a frame, {:.2} writes, {:.2} reads", tap.all, tap.writes, tap.reads);
    assert!((tap.writes - 1.0).abs() < 0.05 && tap.reads > 0.95, "{tap:?}");
    are_copies(copies, tap.writes + tap.reads + tap.bounces, &tap);
    lab.end();
    tap
}

/// Counts with interfaces of VDUSE, which run already: no frame takes a call to move it. The few other calls are those of the
/// control thread, more of them on a busy machine. The table in docs/what-does-a-packet-cost.md has the counts.
/// `copies` is what `compare` states.
pub fn compare(lab: &Lab, layout: &str, tap: &PerFrame, copies: u32) {
    let vduse = per_frame(lab);
    let PerFrame { all, interrupts, others, .. } = vduse;
    println!("VDUSE, {layout}: {all:.2} calls of a frame, {interrupts:.2} interrupts (TAP {:.2})", tap.all);
    assert!(vduse.writes == 0.0 && interrupts > 0.0 && others < 0.5, "{vduse:?}");
    are_copies(copies, vduse.bounces + vduse.delivered, &vduse);
}

/// A few copies are those of other frames: addresses that are asked for, and eventfds that are read.
fn are_copies(stated: u32, counted: f64, figures: &PerFrame) {
    println!("{counted:.2} copies of a frame, {stated} stated");
    assert!((counted - f64::from(stated)).abs() < 0.3, "{stated} {figures:?}");
}

/// The difference between a long and a short time, divided by the frames between them.
fn per_frame(lab: &Lab) -> PerFrame {
    let [few, many] = PINGS.map(|pings| counted(lab, pings));
    println!("{} frames: {:?}, {} frames: {:?}", few.frames, few.calls, many.frames, many.calls);
    let least = few.frames + 2 * u64::from(PINGS[1] - PINGS[0]) - 10;
    assert!(many.frames >= least, "{} {}", many.frames, few.frames);
    let each =
        |of: fn(&Counted) -> u64| (of(&many) as f64 - of(&few) as f64) / (many.frames - few.frames) as f64;
    let of = |name: &str, at: usize| {
        let count = |counted: &Counted| counted.calls.get(name).map_or(0, |counts| counts[at]) as f64;
        (count(&many) - count(&few)) / (many.frames - few.frames) as f64
    };
    let calls = &many.calls;
    let others = calls.keys().filter(|name| !OF_SLEEP_AND_INTERRUPTS.contains(&name.as_str()));
    PerFrame {
        all: calls.keys().map(|name| of(name, 0)).sum(),
        writes: of("writev", 1),
        reads: of("read", 1),
        interrupts: of("ioctl", 1),
        others: others.map(|name| of(name, 0)).sum(),
        bounces: each(|counted| counted.bounces),
        delivered: each(|counted| counted.delivered),
    }
}

/// Counts while frames pass the switch, one at a time.
fn counted(lab: &Lab, pings: u32) -> Counted {
    let said = lab.must(&format!(
        "near=/sys/class/net/$(cat /run/near)/statistics
         frames() {{ echo $(($(cat $near/rx_packets) + $(cat $near/tx_packets))); }}
         strace -f -c -o /run/calls -p $(cat /run/pid) >/dev/null 2>/run/strace </dev/null & tracer=$!
         until_true grep -q attached /run/strace || {{ cat /run/strace; failed no strace; }}
         passed() {{ echo $(($(frames) - $1)) $(($(bounces) - $2)) $(($(delivered) - $3)); }}
         before=$(passed 0 0 0); ping -q -A -c {pings} -W 10 10.77.0.2 >/run/said || failed ping
         passed $before
         kill $tracer; until_true ended $tracer || failed strace is still there; cat /run/calls"
    ));
    let (passed, table) = said.split_once('\n').unwrap();
    let passed: Vec<u64> = passed.split(' ').map(|count| count.parse().unwrap()).collect();
    let [frames, bounces, delivered] = passed[..] else { panic!("{said}") };
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
    Counted { frames, bounces, delivered, calls }
}
