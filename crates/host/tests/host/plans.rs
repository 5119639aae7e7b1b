//! Plans of unlike hosts.

use host::rules::Change;
use host::{Knob, Plan, Profile, Survey};

use super::Host;

fn loader<'a>(plan: &'a Plan, name: &str) -> &'a host::boot_line::Loader {
    let loaders = &plan.boot.as_ref().unwrap().loaders;
    loaders.iter().find(|loader| loader.name == name).unwrap()
}

#[test]
fn grubs_line_keeps_what_was_there() {
    let plan = Host::of("intel").plan();
    let grub = loader(&plan, "GRUB");
    assert!(grub.found && !loader(&plan, "extlinux").found);
    assert_eq!(
        grub.edits[0].line,
        "GRUB_CMDLINE_LINUX=\"net.ifnames=0 isolcpus=managed_irq,2,3,6,7 nohz_full=2,3,6,7 \
         rcu_nocbs=2,3,6,7 rcupdate.rcu_normal_after_boot=1 skew_tick=1\""
    );
}

#[test]
fn without_cgroups_the_boot_line_isolates_from_the_scheduler_too() {
    let plan = Host::of("amd").plan();
    let systemd_boot = loader(&plan, "systemd-boot");
    assert!(systemd_boot.found);
    assert_eq!(
        systemd_boot.edits[0].line,
        "root=/dev/nvme0n1p2 rw isolcpus=managed_irq,domain,4-7 nohz_full=4-7 rcu_nocbs=4-7 \
         rcupdate.rcu_normal_after_boot=1 skew_tick=1"
    );
    assert_eq!(plan.module_options(), [("kvm_amd", "pause_filter_count=0"), ("kvm_amd", "avic=1")]);
}

#[test]
fn extlinux_has_its_append_line() {
    let plan = Host::of("arm").plan();
    let extlinux = loader(&plan, "extlinux");
    assert!(extlinux.found);
    assert_eq!(
        extlinux.edits[0].line,
        "append root=/dev/mmcblk0p2 ro console=ttyAMA0 isolcpus=managed_irq,2,3 nohz_full=2,3 rcu_nocbs=2,3 \
         rcupdate.rcu_normal_after_boot=1 skew_tick=1 kvm-arm.vgic_v4_enable=1"
    );
}

/// An expanded list has overflowed a boot loader's environment of 1024 bytes at 112 CPUs.
#[test]
fn lists_of_many_cpus_stay_short() {
    let plan = Host::of("112-cpus").plan();
    let boot = plan.boot.as_ref().unwrap();
    assert!(boot.line.len() < 400, "{}", boot.line);
    assert!(boot.line.contains("nohz_full=4-27,60-83 "), "{}", boot.line);
    assert_eq!(boot.warning, None);
    assert!(loader(&plan, "GRUB").then.starts_with("grubby "), "{}", loader(&plan, "GRUB").then);
    let mask = plan.rules.iter().flat_map(|rule| &rule.changes).find_map(|change| match change {
        Change::Set { knob: Knob::Mask { path }, value } if path.ends_with("workqueue/cpumask") => {
            Some(value)
        }
        _ => None,
    });
    assert_eq!(mask.unwrap(), "ffff,fff00000,0fffffff,f000000f");
}

#[test]
fn a_line_that_is_too_long_is_said_to_be() {
    let host = Host::of("intel");
    let path = host.folder.path().join("proc/cmdline");
    std::fs::write(path, format!("root=/dev/sda1 {}", "x=1 ".repeat(300))).unwrap();
    let warning = host.plan().boot.unwrap().warning.unwrap();
    assert!(warning.contains("1024") && warning.contains("grubby"), "{warning}");
}

#[test]
fn a_tuned_host_needs_nothing() {
    let plan = Host::of("realtime").plan();
    assert_eq!(plan.rules, [], "{}", plan.render(100));
    assert!(plan.boot.is_none());
}

#[test]
fn a_plan_changes_nothing() {
    for (name, host) in Host::all() {
        let before = super::undo::snapshot(host.folder.path());
        let plan = host.plan();
        assert!(!plan.render(100).is_empty());
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{name}");
        assert_eq!(super::undo::snapshot(host.folder.path()), before, "{name}");
    }
}

#[test]
fn irqbalances_file_is_that_of_the_distribution() {
    let advice = |files: &str| {
        let host =
            super::audits::with_irqbalance(&format!("{files}/proc/900/environ: IRQBALANCE_BANNED_CPUS=1\n"));
        let plan = host.plan();
        let Some(Change::ByHand { action }) = plan.rules.iter().flat_map(|rule| &rule.changes).next() else {
            panic!("{:?}", plan.rules)
        };
        action.clone()
    };
    for (files, file) in [
        ("", "/etc/irqbalance.env"),
        ("/etc/irqbalance.env: X=1\n", "/etc/irqbalance.env"),
        ("/etc/sysconfig/irqbalance: X=1\n", "/etc/sysconfig/irqbalance"),
        ("/etc/default/irqbalance: X=1\n", "/etc/default/irqbalance"),
        ("/etc/debian_version: 12.7\n", "/etc/default/irqbalance"),
        ("/etc/redhat-release: Fedora\n/etc/default/irqbalance: X=1\n", "/etc/sysconfig/irqbalance"),
    ] {
        let action = advice(files);
        assert!(
            action.starts_with(&format!("write IRQBALANCE_BANNED_CPULIST=2,3 to {file} ")),
            "{files}: {action}"
        );
        assert!(action.contains("instead of IRQBALANCE_BANNED_CPUS"), "{action}");
    }
}

#[test]
fn profiles_differ_and_security_is_never_traded_unasked() {
    let mut host = Host::of("intel");
    let mut counts = Vec::new();
    for profile in Profile::ALL {
        host.wishes.profile = profile;
        let plan = Plan::of(&Survey::of(&host.tree, &host.wishes).unwrap());
        assert!(plan.rules.iter().all(|rule| rule.rule != "nx-huge-pages"));
        counts.push(plan.rules.len());
    }
    let [latency, host_, guest, throughput] = counts[..] else { panic!() };
    assert!(host_ > guest && guest > latency && latency > throughput, "{counts:?}");
}

#[test]
fn the_tuned_profile_says_what_it_lacks() {
    let plan = Host::of("intel").plan();
    for words in [
        "[sysctl]\nkernel.sched_rt_runtime_us=-1\n",
        "[vm]\ntransparent_hugepages=never\n",
        "[cpu]\ngovernor=performance\n",
        "[modules]\nkvm=kvmclock_periodic_sync=0\n",
        "[bootloader]\ncmdline_tautline=+isolcpus=managed_irq,2,3,6,7 ",
        "# tuned has no plain way for: domain-isolation, interrupts, kvm-threads",
    ] {
        assert!(plan.tuned.contains(words), "{words}\nin\n{}", plan.tuned);
    }
}
