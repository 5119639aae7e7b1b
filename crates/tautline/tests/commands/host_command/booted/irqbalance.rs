//! The rule `irqbalance` against the distribution's irqbalance itself: the CPUs that it says it leaves alone, and what
//! the audit says of them, for each way to set them.

use host::CpuList;
use peers::Guest;
use peers::guest::Settings;

use super::{boot, run};

/// `IRQBALANCE_BANNED_CPUS` and `IRQBALANCE_BANNED_CPULIST`, where they are set.
const ENVIRONMENTS: [(Option<&str>, Option<&str>); 34] = [
    (None, None),
    (None, Some("")),
    (Some(""), Some("")),
    (None, Some("2-3")),
    (None, Some("3,2")),
    (None, Some("3")),
    (None, Some("0-4095")),
    (None, Some("2-4096")),
    (None, Some("2-N")),
    (None, Some("4-3")),
    (None, Some("0,2-N")),
    (None, Some("2-3,x")),
    (None, Some("'2-3'")),
    (None, Some("\"2-3\"")),
    (None, Some("2,,3")),
    (None, Some("2-3,")),
    (None, Some("2-3, ")),
    (None, Some(",")),
    (None, Some("2-")),
    (None, Some("0-")),
    (None, Some("-3")),
    (None, Some("1-2-3")),
    (None, Some("2, 3")),
    (None, Some("2 ,3")),
    (None, Some(" 2-3 ")),
    (None, Some("+2")),
    (Some(""), Some("2-3")),
    (Some("c"), None),
    (Some("c"), Some("0")),
    (Some("1"), Some("2-3")),
    (Some("0000000c"), None),
    (Some("0xc"), Some("2-3")),
    (Some("c,x"), None),
    (Some("ffffffff,0000000c"), None),
];
/// What the kernel's `isolated` and `nohz_full` hold where the environment sets nothing.
const KERNELS: [(&str, &str); 5] = [("2-3", ""), ("2", "3"), ("", " (null)"), ("", "0-3"), ("3", "1")];

/// Starts irqbalance with the variables set before. It makes its socket after it has read what it bans.
const START: &str = r#"
n=$((n + 1))
irqbalance --foreground --debug --interval 600 >/tmp/log.$n 2>&1 &
pids="$pids $!"
"#;
/// Audits all that run, ends them, and prints their masks, a line each, and the finding. Their logs are written then.
const AUDIT: &str = r#"
for pid in $pids; do until [ -S /run/irqbalance/irqbalance$pid.sock ]; do sleep 0.05; done; done
tautline host audit --isolate 2-3 --watch 0s --format json >/tmp/audit
kill $pids; wait $pids
for log in $(seq $n); do sed -n 's/^Banned CPUs: //p' /tmp/log.$log | head -n 1; done
grep -A3 '"rule": "irqbalance"' /tmp/audit | sed -n 's/^ *"state": "\(.*\)",$/\1/p; s/^ *"found": "\(.*\)",$/\1/p'
"#;

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn variable(name: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("export {name}={}\n", quoted(value)),
        None => format!("unset {name}\n"),
    }
}

#[test]
fn the_audit_says_what_irqbalance_does() {
    peers::standstill::once_more(|| {
        let guest = boot(Settings::default(), "isolcpus=3 nohz_full=2");
        let begin = std::time::Instant::now();
        run(&guest, "mkdir -p /run/irqbalance");
        environments_decide(&guest);
        else_the_kernel(&guest);
        println!("{} settings in {:?}", ENVIRONMENTS.len() + KERNELS.len(), begin.elapsed());
    });
}

/// All at once: the audit names what each irqbalance bans, in the order in which they were started.
fn environments_decide(guest: &Guest) {
    let start = |(mask, list)| {
        variable("IRQBALANCE_BANNED_CPUS", mask) + &variable("IRQBALANCE_BANNED_CPULIST", list) + START
    };
    let script: String = ENVIRONMENTS.into_iter().map(start).collect();
    let said = run(guest, &format!("n=0 pids=\n{script}{AUDIT}"));
    let lines: Vec<&str> = said.lines().collect();
    let Some((masks, &["fail", found])) = lines.split_at_checked(ENVIRONMENTS.len()) else {
        panic!("{said}")
    };
    let found: Vec<&str> = found.split("; running; ").collect();
    assert_eq!(found.len(), masks.len(), "{said}");
    for ((environment, mask), found) in ENVIRONMENTS.iter().zip(masks).zip(found) {
        same(found.trim_start_matches("running; "), mask, &format!("(mask, list) {environment:?}"));
    }
    let distinct: std::collections::BTreeSet<&&str> = masks.iter().collect();
    assert!(distinct.len() > 6, "{distinct:?}");
}

/// Other files in place of the kernel's own, one pair after the other.
fn else_the_kernel(guest: &Guest) {
    let mounts = "cd /sys/devices/system/cpu; for file in isolated nohz_full; do \
                  touch /tmp/$file; mount --bind /tmp/$file $file; done";
    run(guest, mounts);
    for (isolated, nohz_full) in KERNELS {
        let files =
            format!("echo {} >/tmp/isolated; echo {} >/tmp/nohz_full", quoted(isolated), quoted(nohz_full));
        let said = run(guest, &format!("{files}\nn=0 pids=\n{START}{AUDIT}"));
        let [mask, state, found] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
        let setting = format!("isolated {isolated:?}, nohz_full {nohz_full:?}");
        same(found.trim_start_matches("running; "), mask, &setting);
        let holds = "2-3".parse::<CpuList>().unwrap().within(&CpuList::from_mask(mask).unwrap());
        assert_eq!(state, if holds { "pass" } else { "fail" }, "{setting}: {said}");
    }
}

#[track_caller]
fn same(found: &str, mask: &str, setting: &str) {
    let banned = CpuList::from_mask(mask).unwrap();
    let left_alone = if banned.is_empty() { "none".into() } else { banned.to_string() };
    let wanted = format!("leaves alone: {left_alone} (");
    assert!(found.starts_with(&wanted), "{setting}: irqbalance bans {mask}, the audit found {found}");
}
