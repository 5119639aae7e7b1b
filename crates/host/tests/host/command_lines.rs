//! The kernel's command line as people write it, and CPUs that are set aside and do not run.

use host::rules::State::{self, Fail, Pass};
use host::{Audit, HostTree, Plan, Survey, recorded};

use super::{Host, found, state};

/// Says what two rules find on the tuned host with these parameters, where no CPUs are named.
fn with(parameters: &str) -> (Audit, Plan) {
    let mut host = Host::of("realtime");
    host.wishes.isolate = None;
    std::fs::write(host.folder.path().join("proc/cmdline"), format!("ro {parameters} skew_tick=1\n"))
        .unwrap();
    (host.audit(), host.plan())
}

#[test]
fn lists_of_the_command_line_are_read_as_the_kernel_reads_them() {
    for (parameters, managed, rcu) in [
        ("isolcpus=managed_irq,domain,2-N nohz_full=2-N rcu_nocbs=2-N", Pass, Pass),
        ("isolcpus=managed_irq,domain,2-3 rcu_nocbs=all", Pass, Pass),
        ("isolcpus=managed_irq,domain,2-3, nohz_full=2-3, rcu_nocbs=2-3,", Pass, Pass),
        ("\"isolcpus=managed_irq,domain,2-3\" nohz_full=\"2-3\"", Pass, Pass),
        ("isolcpus=nohz,domain,managed_irq,2-3", Pass, Pass),
        ("isolcpus=managed_irq,domain,0-N:1/2 rcu_nocbs=0-N:1/1", Fail, Pass),
        // N where flags stand is a flag that the kernel skips.
        ("isolcpus=managed_irq,domain,N nohz_full=2-3", Fail, Pass),
        ("isolcpus=domain,2-3 isolcpus=managed_irq,domain,2-3", Pass, Fail),
        ("isolcpus=managed_irq,domain,2 isolcpus=managed_irq,domain,2-3 rcu_nocbs=2", Fail, Fail),
    ] {
        let (audit, _) = with(parameters);
        let states = ["managed-interrupts", "rcu"].map(|rule| (state(&audit, rule), found(&audit, rule)));
        assert_eq!(states.map(|(state, _)| state), [managed, rcu], "{parameters}: {states:?}");
    }
}

#[test]
fn a_new_isolcpus_keeps_what_the_old_one_did() {
    for (old, new) in [
        ("isolcpus=2-3 nohz_full=2-3", "isolcpus=managed_irq,domain,2,3"),
        ("isolcpus=nohz,domain,2-3", "isolcpus=nohz,managed_irq,domain,2,3"),
        ("isolcpus=nohz,2-3 nohz_full=2-3", "isolcpus=managed_irq,2,3"),
    ] {
        let (_, plan) = with(old);
        assert!(plan.boot_parameters().contains(&new.to_owned()), "{old}: {:?}", plan.boot_parameters());
    }
}

#[test]
fn an_isolated_cpu_that_is_offline_is_named_and_the_others_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let text = "/proc/version: Linux version 6.12.48-rt\n/proc/cmdline: ro isolcpus=4-7\n\
                /proc/cpuinfo: vendor_id : AuthenticAMD\n/sys/devices/system/cpu/online: 0,2,4,6\n\
                /sys/devices/system/cpu/isolated: 4-7\n/sys/devices/system/cpu/nohz_full: \n";
    recorded::unpack(text, folder.path()).unwrap();
    let tree = HostTree::at(folder.path());
    let wishes = host::Wishes { isolate: None, ..super::wishes("".parse().unwrap()) };
    let survey = Survey::of(&tree, &wishes).unwrap();
    let (audit, plan) = (Audit::of(&survey), Plan::of(&survey));
    let list = |text: &str| text.parse::<host::CpuList>().unwrap();
    assert_eq!((&audit.isolated, &audit.isolated_offline), (&list("4,6"), &list("5,7")));
    assert_eq!((&plan.isolated, &plan.isolated_offline), (&list("4,6"), &list("5,7")));
    for text in [audit.render(100), plan.render(100)] {
        assert!(text.contains("set aside 4,6 (and 5,7, not online)"), "{text}");
    }
    assert_eq!(state(&audit, "domain-isolation"), State::Pass);
    // A CPU that is offline now stays set aside by the next boot.
    assert!(plan.boot_parameters().contains(&"isolcpus=managed_irq,domain,4-7".to_owned()));
    assert!(plan.boot_parameters().contains(&"nohz_full=4-7".to_owned()));

    std::fs::write(folder.path().join("sys/devices/system/cpu/isolated"), "5,7\n").unwrap();
    let text = Audit::of(&Survey::of(&tree, &wishes).unwrap()).render(100);
    assert!(text.contains("set aside none (and 5,7, not online)"), "{text}");
}

#[test]
fn cpus_are_named_as_on_the_command_line() {
    let mut host = Host::of("intel");
    for (written, cpus) in [("2-N", "2-7"), ("0-N:1/2,2", "0,2,4,6"), ("N", "7"), ("6-7,", "6,7")] {
        host.wishes.isolate = Some(written.parse().unwrap());
        assert_eq!(Survey::of(&host.tree, &host.wishes).unwrap().isolated.to_string(), cpus, "{written}");
    }
    for (written, words) in [("all", "no others"), ("8", "not online"), ("N-3", "no list of CPUs")] {
        host.wishes.isolate = Some(written.parse().unwrap());
        let failure = Survey::of(&host.tree, &host.wishes).err().unwrap().to_string();
        assert!(failure.contains(words), "{written}: {failure}");
    }
}
