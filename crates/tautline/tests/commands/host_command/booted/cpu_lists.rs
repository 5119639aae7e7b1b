//! Lists of CPUs, and the parameters of the kernel's command line that hold them, against what a kernel makes of them.
//!
//! The kernel has one reader of lists, `bitmap_parselist`. `isolcpus`, `nohz_full` and `rcu_nocbs` call it by
//! `cpulist_parse`, and so does a cpuset's `cpuset.cpus`, which keeps any possible CPU, online or not. One guest thus
//! judges hundreds of lists. Guests are booted for what the command line adds: quotes, flags, several parameters.
//! Sysfs does not show which CPUs are kept from managed interrupts: `managed_irq` is read by the loop that reads
//! `domain` and `nohz`, and these show.

use host::{CommandLine, CpuList, Machine, WrittenCpus};
use peers::Guest;
use peers::guest::Settings;

/// CPUs of the guest: one runs, the others could be plugged in.
const LAST: usize = 15;

pub fn boot(line: &str) -> Guest {
    let settings = Settings::default().realtime().parameters(line).arguments(["-smp", "1,maxcpus=16"]);
    settings.start().unwrap()
}

/// What the kernel says of these lists; `None` where it refuses one.
fn asked(guest: &Guest, lists: &[String]) -> Vec<Option<String>> {
    let quoted: Vec<String> = lists.iter().map(|list| format!("'{list}'")).collect();
    let said = guest.must(&format!(
        "mkdir -p /cgroup && mount -t cgroup2 cgroup2 /cgroup && echo +cpuset >/cgroup/cgroup.subtree_control && \
         mkdir /cgroup/lists && cd /cgroup/lists && for list in {}; do \
         if printf '%s\\n' \"$list\" 2>&- >cpuset.cpus; then cat cpuset.cpus; else echo refused; fi; done",
        quoted.join(" ")
    ));
    said.lines().map(|line| (line != "refused").then(|| line.to_owned())).collect()
}

/// Lists of pieces of the grammar, put together well and badly; the same ones each time.
fn made_up(count: usize) -> Vec<String> {
    const NUMBERS: [&str; 10] = ["0", "1", "2", "3", "5", "8", "15", "16", "007", "N"];
    const BETWEEN: [&str; 5] = [",", ",", " ", ",,", ", "];
    const PIECES: [&str; 14] = ["0", "3", "9", "15", "N", "all", "ALL", "-", ":", "/", ",", " ", "x", "n"];
    let mut state = 1u64;
    let mut below = move |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut list = |number: usize| {
        let mut list = String::new();
        for part in 0..=below(4) {
            if number % 4 == 3 {
                list += PIECES[below(PIECES.len())];
                list += PIECES[below(PIECES.len())];
                continue;
            }
            if part > 0 {
                list += BETWEEN[below(BETWEEN.len())];
            }
            let mut number = || NUMBERS[below(NUMBERS.len())];
            let range = format!("{}-{}", number(), number());
            let pattern = format!(":{}/{}", number(), number());
            list += &match below(6) {
                0 | 1 => NUMBERS[below(NUMBERS.len())].to_owned(),
                2 | 3 => range,
                4 => range + &pattern,
                _ => "all".to_owned() + if below(2) == 0 { "" } else { &pattern },
            };
        }
        list
    };
    (0..count).map(&mut list).collect()
}

#[test]
fn lists_mean_what_they_mean_to_the_kernel() {
    let fixed = [
        "",
        ",",
        "0",
        "N",
        "2-N",
        "0-N",
        "all",
        "All",
        "ALL:1/4",
        "2-3,",
        ",2",
        "2,,3",
        "2 3",
        "0-10:2/4",
        "5-10:3/4",
        "0-N:1/2",
        "N-N",
        "N-3",
        "3-N:1/N",
        "0-3:0/1",
        "0-3:1/2N",
        "0-3:1/2all",
        "0-3:1/0",
        "0-3:3/2",
        "3:1/2",
        "all-3",
        "1-2-3",
        "-1",
        "1-",
        "1 - 2",
        "16",
        "0-16",
        "4294967296",
        "x",
        "n",
        "0x3",
        "+1",
        "1:2",
        "all:2",
        "00-03",
    ];
    let lists: Vec<String> = fixed.iter().map(|list| list.to_string()).chain(made_up(400)).collect();
    let said = asked(&boot(""), &lists);
    assert_eq!(said.len(), lists.len());
    let taken = said.iter().flatten().count();
    assert!(taken > 100 && lists.len() - taken > 100, "{taken} of {}", lists.len());
    for (list, said) in lists.iter().zip(said) {
        let read = list.parse::<WrittenCpus>().and_then(|list| list.on(LAST));
        assert_eq!(read.ok().map(|cpus| linux::cpus::list(&cpus)), said, "{list:?}");
    }
}

#[test]
fn lines_set_aside_what_the_kernel_sets_aside() {
    // Isolated, without a tick, RCU's callbacks offloaded.
    for (line, wanted) in [
        ("isolcpus=2-N nohz_full=2-N, rcu_nocbs=N", ["2-15", "2-15", "2-15"]),
        ("rcu_nocbs=all isolcpus=N", ["", "", "0-15"]),
        ("isolcpus=managed_irq,domain,N nohz_full=N", ["", "15", "15"]),
        ("isolcpus=nohz,domain,managed_irq,2-3", ["2-3", "2-3", "2-3"]),
        ("isolcpus=nohz,2 nohz_full=3 rcu_nocbs=7 rcu_nocbs=8", ["", "2", "2,8"]),
        ("isolcpus=2 isolcpus=3 nohz_full=4 nohz_full=5", ["2", "4", "4"]),
        ("isolcpus=managed_irq,2 isolcpus=3 nohz_full=4-x rcu_nocbs", ["3", "", ""]),
        ("\"isolcpus=2, 3\" nohz_full=\"4 5\" rcu-nocbs=6, -- isolcpus=8", ["2-3", "4-5", "4-6"]),
        ("isolcpus=2-16 nohz_full=0-10:2/4 rcu_nocbs=16", ["", "1,4-5,8-9", "0-15"]),
        ("isolcpus=new_flag,2 isolcpus=new.flag,managed_irq,3 nohz_full=5,,7", ["2", "5,7", "5,7"]),
        ("isolcpus=0-N nohz_full=0-N", ["1-15", "1-15", "1-15"]),
    ] {
        let guest = boot(line);
        let read = |name: &str| guest.must(&format!("cat /sys/devices/system/cpu/{name}")).trim().to_owned();
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        let console = guest.must("dmesg");
        const OFFLOADED: &str = "Offload RCU callbacks from CPUs: ";
        let offloaded = console.lines().find_map(|line| line.split_once(OFFLOADED));
        let offloaded =
            offloaded.map_or("", |(_, cpus)| cpus.trim().trim_end_matches('.').trim_matches(['(', ')']));
        let offloaded = if offloaded == "none" { "" } else { offloaded };
        let said = [list(&read("isolated")), list(&read("nohz_full")), list(offloaded)];
        assert_eq!(said, wanted.map(list), "the kernel of {line}: {}", console);

        let machine = Machine {
            last: list(&read("possible")).last().unwrap(),
            present: list(&read("present")),
            tickless: true,
        };
        assert_eq!(machine.last, LAST);
        let here = CommandLine::parse(&guest.must("cat /proc/cmdline"));
        let aside = here.set_aside(&machine);
        assert_eq!([aside.domain, aside.tick, here.offloaded(&machine)], said, "{line}");
    }
}
