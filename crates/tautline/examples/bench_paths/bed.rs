//! The machine in which paths are counted, and what is done in it: packets on one path and in one direction at a
//! time, between two looks at the counters. What sending alone costs is counted in the same way and taken off.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use kvm::trace::{Extension, Reasons};
use peers::Output;
use peers::nested::{Clock, Direction, Inner, InnerSettings, Machine, NetworkPath, Pings, Settings};

use crate::results::{Counts, Run};
use crate::window::{Counters, Kind, shell};

/// The time of one instruction by the machine's clock, ns (`-icount shift=1`).
const INSTRUCTION_NS: f64 = 2.0;
/// The addresses of the two interfaces that drop all packets: the machine's and the guest's.
const DUMMY: [&str; 2] = ["10.0.100.1", "10.0.100.2"];
/// The time before the first packet and after the last, s.
const MARGIN: f64 = 1.5;
const SCRIPT: &str = "/run/bench.sh";
const COUNTS: &str = "/run/bench.counts";

/// Boots a machine and a guest in it, and counts.
pub fn count(program: &Path, paths: &[NetworkPath], packets: u32) -> anyhow::Result<Run> {
    let machine = Settings::default()
        .size(1, 2048)
        .clock(Clock::Instructions)
        .program(program)
        .card_to_hand_on()
        .start()?;
    let [here, there] = DUMMY;
    // A guest that halts is not polled for: polling counts instructions that no packet needs.
    succeeded(machine.run(&format!(
        "set -e; echo 0 >/sys/module/kvm/parameters/halt_poll_ns; mkfifo /run/sender.in /run/sender.out
         modprobe dummy numdummies=0; ip link add dummy0 type dummy
         ip addr add {here}/24 dev dummy0; ip link set dummy0 up"
    ))?)?;
    // The guest sends when a line comes through a serial port of its own: nothing of the host's is in the way.
    let settings = InnerSettings::default()
        .size(1, 384)
        .exit_at_end_of_interrupt()
        .arguments("-chardev pipe,id=sender,path=/run/sender -serial chardev:sender");
    let inner = machine.guest_on(paths, settings)?;
    succeeded(inner.run(&format!(
        "set -e; ip addr add {there}/24 dev dummy0; ip link set dummy0 up; stty -F /dev/ttyS1 raw -echo
         echo 'while read -r line; do sleep 1; eval \"$line\"; done </dev/ttyS1' >/run/sender
         setsid sh /run/sender </dev/null >/dev/null 2>&1 &"
    ))?)?;
    let windows = windows(paths);
    for (_, pings) in windows.iter().filter(|(window, _)| window.direction == Direction::NetTx) {
        succeeded(inner.run(&pings.prepare())?)?;
    }
    machine.push(script(&windows, packets).as_bytes(), Path::new(SCRIPT))?;
    let before = cards(&inner)?;
    // By the machine's own clock too, which runs ahead while it waits, and hardly at all where it stands still.
    let limit = Duration::from_secs(60) + Duration::from_secs_f64(2.0 * seconds(&windows, packets));
    let output = machine.begin(&format!("sh -eu {SCRIPT} >{COUNTS}"), limit)?.wait()?;
    ensure!(output.success() && output.stderr.is_empty(), "counting failed: {}", output.stderr);
    let after = cards(&inner)?;
    for path in paths {
        let of = |cards: &Cards| cards.get(&path.mac()).copied().unwrap_or_default();
        let ([rx_before, tx_before], [rx, tx]) = (of(&before), of(&after));
        // Of events and of instructions.
        let wanted = 2 * u64::from(packets);
        for (direction, passed) in Direction::BOTH.into_iter().zip([rx - rx_before, tx - tx_before]) {
            let (path, direction) = (path.name(), direction.name());
            ensure!(
                passed >= wanted,
                "{path}, {direction}: of {wanted} packets {passed} passed the guest's card"
            );
        }
    }
    let text = String::from_utf8(machine.pull(Path::new(COUNTS))?).context("the counters are no text")?;
    let mut run = read(&text, &reasons(&machine)?, paths, packets)?;
    run.kernel = format!("Linux {}", succeeded(machine.run("uname -r")?)?.trim());
    let qemu = succeeded(machine.run("qemu-system-x86_64 --version")?)?;
    run.qemu = qemu.lines().next().unwrap_or_default().replace("QEMU emulator version", "QEMU");
    Ok(run)
}

/// What a command line that must not fail has printed. An error, not a panic: a machine that stood still is begun
/// again.
fn succeeded(output: Output) -> anyhow::Result<String> {
    ensure!(output.success(), "{}{}", output.stdout, output.stderr);
    Ok(output.stdout)
}

/// Packets that the guest's cards have taken in and sent, by Ethernet address.
type Cards = BTreeMap<String, [u64; 2]>;

fn cards(inner: &Inner<'_>) -> anyhow::Result<Cards> {
    let text = succeeded(inner.run(
        "cd /sys/class/net; for card in *; do
         echo $(cat $card/address $card/statistics/rx_packets $card/statistics/tx_packets); done",
    )?)?;
    let card = |line: &str| {
        let mut words = line.split_whitespace();
        let mac = words.next()?.to_owned();
        Some((mac, [words.next()?.parse().ok()?, words.next()?.parse().ok()?]))
    };
    text.lines().map(|line| card(line).with_context(|| format!("no card's counts in {line:?}"))).collect()
}

fn reasons(machine: &Machine) -> anyhow::Result<Reasons> {
    let format = succeeded(machine.run("cat /sys/kernel/tracing/events/kvm/kvm_exit/format")?)?;
    Reasons::parse(&format, Extension::Svm).context("kvm_exit has other fields than on x86")
}

/// A stretch in which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    direction: Direction,
    to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// An interface that drops all.
    Dummy,
    /// The wire of the card that is handed on, which does not take them.
    Past,
    Path(NetworkPath),
}

/// The window whose counts are taken off: the same packets from the same sender, into an interface that drops them. If
/// the sender has a card of its own, the packets go through it.
fn sending(window: Window) -> Window {
    let to = match window {
        Window { direction: Direction::NetRx, to: To::Path(NetworkPath::Direct) } => To::Past,
        _ => To::Dummy,
    };
    Window { to, ..window }
}

fn windows(paths: &[NetworkPath]) -> Vec<(Window, Pings)> {
    let mut windows = Vec::new();
    for (direction, address) in Direction::BOTH.into_iter().zip(DUMMY) {
        windows.push((Window { direction, to: To::Dummy }, Pings::into_dummy(address)));
        if direction == Direction::NetRx && paths.contains(&NetworkPath::Direct) {
            windows.push((Window { direction, to: To::Past }, NetworkPath::Direct.pings_past_it()));
        }
        windows.extend(
            paths.iter().map(|path| (Window { direction, to: To::Path(*path) }, path.pings(direction))),
        );
    }
    windows
}

fn sending_seconds(packets: u32) -> f64 {
    MARGIN + 0.02 * f64::from(packets)
}

/// How long the script takes, about.
fn seconds(windows: &[(Window, Pings)], packets: u32) -> f64 {
    let wait = 2.0;
    (Kind::BOTH.len() * windows.len()) as f64 * (sending_seconds(packets) + wait)
}

/// All of it in one script, so that the host is not asked for anything in between. Events and instructions are
/// counted apart: counting events takes instructions.
fn script(windows: &[(Window, Pings)], packets: u32) -> String {
    let mut script = shell();
    let seconds = sending_seconds(packets);
    script += &format!(
        "window() {{
             [ -z \"$2\" ] || echo \"$2\" >/run/sender.in
             sleep 0.5; echo \"=== before\"; \"$1\"
             (sleep 0.5; eval \"$3\") & sleep {seconds}
             echo \"=== after\"; \"$1\"; wait
         }}\n"
    );
    for (_, pings) in windows.iter().filter(|(window, _)| window.direction == Direction::NetRx) {
        script += &format!("{}\n", pings.prepare());
    }
    for kind in Kind::BOTH {
        script += &format!("counting {}\n", if kind == Kind::Events { "''" } else { "'!'" });
        for (window, pings) in windows {
            let send = pings.send(packets);
            let (there, here) = match window.direction {
                Direction::NetRx => ("", &*send),
                Direction::NetTx => (&*send, ":"),
            };
            script += &format!("window {} '{there}' '{here}'\n", kind.function());
        }
    }
    script
}

fn read(text: &str, reasons: &Reasons, paths: &[NetworkPath], packets: u32) -> anyhow::Result<Run> {
    let mut parts = text.split("=== ").skip(1).map(|part| Counters::parse(part).map_err(anyhow::Error::msg));
    let mut found: BTreeMap<(Kind, usize), Counters> = BTreeMap::new();
    let windows = windows(paths);
    for kind in Kind::BOTH {
        for number in 0..windows.len() {
            let [before, after] =
                [parts.next(), parts.next()].map(|part| part.context("counters are missing"));
            found.insert((kind, number), after??.since(&before??));
        }
    }
    let number = |window: Window| windows.iter().position(|(known, _)| *known == window);
    let mut run = Run::default();
    for direction in Direction::BOTH {
        for path in paths {
            let window = Window { direction, to: To::Path(*path) };
            let [own, sending] = [window, sending(window)].map(number).map(|n| n.context("no such window"));
            let (own, sending) = (own?, sending?);
            let of = |kind| found[&(kind, own)].since(&found[&(kind, sending)]);
            let (events, clock) = (of(Kind::Events), of(Kind::Clock));
            let each = |count: i64| count as f64 / f64::from(packets);
            run.counts.insert(
                (path.name().into(), direction.name().into()),
                Counts::new(&events, (clock.clock - clock.idle) as f64 / INSTRUCTION_NS, reasons, each),
            );
        }
    }
    Ok(run)
}
