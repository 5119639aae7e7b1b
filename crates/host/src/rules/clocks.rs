//! Clocks, and interrupts that only the firmware handles.

use super::rule::*;
use crate::survey::Processor;
use crate::survey::{Profile, Survey};

pub const RULES: &[Rule] = &[
    Rule {
        id: "clocksource",
        title: "The processor's own clock",
        why: "other clocks are read through I/O ports or memory: microseconds, and exits in a guest",
        source: "tuned realtime-virtual-host",
        risk: "forcing it hides a time-stamp counter that the kernel found unstable",
        takes: Takes::RunTime,
        profiles: ALL,
        look: source,
    },
    Rule {
        id: "firmware-interrupts",
        title: "No system management interrupts",
        why: "the firmware takes all CPUs for as long as it likes, unseen by the kernel",
        source: "kernel, admin-guide/cpu-isolation",
        risk: "switching them off may switch off fan control or error handling: the vendor's guide says which",
        takes: Takes::Firmware,
        profiles: HOST,
        look: firmware,
    },
];

fn source(survey: &Survey) -> Verdict {
    const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
    let own = match survey.processor {
        Processor::Arm => "arch_sys_counter",
        _ => "tsc",
    };
    let read = |name: &str| survey.tree.read(&format!("{FOLDER}/{name}"));
    let (current, available) = match (read("current_clocksource"), read("available_clocksource")) {
        (Ok(current), Ok(available)) => (current, available),
        (Err(unread), _) | (_, Err(unread)) => return Verdict::unknown(unread, own),
    };
    let found = format!("{current}, of {available}");
    // KVM's clock is the time-stamp counter, scaled.
    let holds = current == own || survey.wishes.profile == Profile::RealtimeGuest && current == "kvm-clock";
    let change = if available.split_whitespace().any(|name| name == own) {
        Change::file(format!("{FOLDER}/current_clocksource"), own)
    } else {
        Change::by_hand(format!(
            "the kernel does not offer {own}: see `dmesg | grep -i tsc` for why it was found unstable, and mend that"
        ))
    };
    Verdict::judge(holds, found, own).with([change])
}

fn firmware(survey: &Survey) -> Verdict {
    let wanted = "0 while they are watched";
    if survey.processor != Processor::Intel {
        return match survey.processor {
            Processor::Arm => Verdict::unknown("secure firmware counts none; run hwlatdetect", wanted),
            _ => Verdict::unknown("only Intel counts them in a register; run hwlatdetect", wanted),
        };
    }
    let Some(watched) = &survey.watched else {
        return Verdict::unknown("not watched (give --watch 1s on the host itself)", wanted);
    };
    match &watched.firmware {
        Ok(count) => {
            Verdict::judge(*count == 0, format!("{count} in {:.1} s", watched.time.as_secs_f64()), wanted)
                .with([Change::by_hand(
                    "switch USB legacy support, power capping and memory patrol off in the firmware",
                )])
        }
        Err(error) => Verdict::unknown(format!("{error} (modprobe msr, run as root)"), wanted),
    }
}
