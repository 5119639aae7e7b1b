//! Network interfaces of a kernel on the switch, without TAPs (VDUSE), in a guest whose kernel has it. One interface is
//! in a network namespace, as a container has it, so that frames between the two pass the switch.
mod lab;

use std::path::Path;

use peers::guest::Settings;

use lab::Lab;

#[test]
fn a_kernel_has_interfaces_on_the_switch_and_keeps_them_when_the_switch_is_killed() {
    let setpriv = Path::new("/usr/bin/setpriv");
    let lab = Lab::boot(Settings::default().size(1, 384).vduse().program(setpriv));
    let doctor = lab.must("tautline doctor --require vduse");
    assert!(doctor.contains("created, opened and destroyed a network device"), "{doctor}");
    page(&lab);
    refusals(&lab);
    for (options, layout) in [(",packed=off", "split"), ("", "packed")] {
        lab.start(options);
        lab.check(layout);
        lab.killed_under_traffic(options);
        lab.end();
    }
}

/// Each error names what is missing or in the way.
fn refusals(lab: &Lab) {
    lab.must(
        "switch --port one=vduse:taken; until_true interface taken || failed no interface
         refused 'another process serves this device: end it' tautline switch --port one=vduse:taken
         refused 'run the switch as root' /programs/setpriv --reuid 1000 --clear-groups tautline switch --port one=vduse:other
         kill $(cat /run/pid); until_true ended || failed still there",
    );
    lab.must(
        "rmmod virtio_vdpa; switch --port one=vduse:net0
         until_true grep -q 'modprobe virtio_vdpa (CONFIG_VIRTIO_VDPA)' /run/log /run/out || failed no remedy
         tautline doctor --require vduse | grep -q 'modprobe virtio_vdpa' || failed doctor
         kill $(cat /run/pid); until_true ended || failed still there
         rmmod vhost_vdpa; rmmod vduse
         refused 'modprobe vduse.*CONFIG_VDPA_USER.*linux-image-6.12' tautline switch --port one=vduse:net0
         refused 'modprobe vduse.*CONFIG_VDPA_USER' tautline doctor --require vduse
         for module in $(cat /modules/order); do insmod /modules/$module 2>/dev/null; done; [ -e /dev/vduse/control ]",
    );
}

/// The page's commands, in the guest. The modules are loaded already, and there is no modprobe.
fn page(lab: &Lab) {
    let page = include_str!("../../../../docs/tap-and-captures.md");
    let section = page.split("\n## `vduse:NAME`\n").nth(1).expect("the section");
    let block = section.split("```").nth(1).and_then(|block| block.strip_prefix("sh\n")).expect("its block");
    let (modprobe, rest) = block.split_once('\n').unwrap();
    assert!(modprobe.starts_with("modprobe "), "{modprobe}");
    let rest = rest.replace("net0 &", "net0 >>/run/out 2>>/run/log </dev/null & echo $! >/run/pid");
    lab.must(&rest);
    lab.must(
        "ping -c 1 -W 10 10.9.0.1 && ping -c 1 -W 1 10.9.0.7 && exit 1
         kill $(cat /run/pid); until_true ended || failed still there",
    );
}

#[test]
fn a_later_kernel_has_interfaces_on_the_switch_too() {
    let lab = Lab::boot(Settings::default().size(1, 384).later_vduse());
    lab.must("tautline doctor --require vduse");
    lab.start("");
    lab.check("packed");
    lab.killed_under_traffic("");
    lab.end();
}
