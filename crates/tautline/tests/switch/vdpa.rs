//! The relay between a vhost-user front-end and a vDPA device, in a guest whose kernel has vDPA. The front-end is a
//! virtio-user port of a switch, or QEMU with a guest within. The device is a VDUSE port of another switch, or a virtio
//! card behind an IOMMU.
mod compared;
mod guest;
mod hostile;
mod lab;

use peers::guest::Settings;

use lab::Lab;

#[test]
fn a_front_end_and_a_device_in_software_share_rings() {
    let lab = Lab::boot(Settings::default().size(1, 512).vduse());
    let refused =
        lab.must("tautline vdpa --port a=vhost-user:/run/a --device /dev/vhost-vdpa-0 2>&1 || true");
    assert!(refused.contains("vdpa dev add"), "{refused}");
    for options in ["", ",packed=on"] {
        lab.must(&format!(
            "start device switch --port card=vduse:card,driver=vhost_vdpa{options} --port far=vduse:far
             until_true interface far || failed no interface far
             device_is_there
             other_end $(interface far)"
        ));
        lab.relay("relay", "/dev/vhost-vdpa-0");
        lab.front_end();
        lab.check();
        // Of a packed ring, `vp_vdpa` does not tell the position, so that front-ends of a card are not offered one.
        if !options.is_empty() {
            lab.must("stop front");
            hostile::torture(&lab, "packed-ring", "--time 2s");
            lab.front_end();
        }
        lab.must("stop front; stop relay; stop device; ip netns delete there; rm /run/*.log");
    }
}

#[test]
fn a_card_behind_an_iommu_works_on_the_rings_of_a_front_end() {
    // QEMU 7.2 ends at a hostile ring (`iov_copy: Assertion`): its virtio-net device does not expect descriptors that are
    // shorter together than the header. QEMU 10 says "virtio-net header is invalid".
    let lab = Lab::boot(Settings::default().size(1, 512).vdpa().newer_qemu());
    lab.cards();
    let doctor = lab.must("tautline doctor --require vdpa");
    assert!(doctor.contains("opened /dev/vhost-vdpa-0: a device of the kind 1"), "{doctor}");
    lab.relay("relay", "/dev/vhost-vdpa-0");
    for _ in 0..2 {
        lab.front_end();
        lab.check();
        lab.must("stop front");
    }
    assert_eq!(lab.faults(), "");
    hostile::front_ends(&lab);
    lab.front_end();
    lab.check();
    refusals(&lab);
    // The kernel waits until the relay has closed the device.
    lab.must(
        "vdpa dev del card0 || failed vdpa dev del; says relay 'device is gone'; stop front; stop relay
         rmmod vhost_vdpa
         refused 'modprobe vhost_vdpa (CONFIG_VHOST_VDPA' tautline vdpa --port b=vhost-user:/run/b --device /dev/vhost-vdpa-1
         refused 'modprobe vhost_vdpa.*CONFIG_VHOST_VDPA.*linux-image-6.12' tautline doctor --require vdpa",
    );
}

/// Each error names what is missing or in the way. A front-end has the first device.
fn refusals(lab: &Lab) {
    lab.must(
        "refused 'end the program that has the device open' \
             tautline vdpa --port b=vhost-user:/run/b --device /dev/vhost-vdpa-0
         refused 'vdpa dev add' tautline vdpa --port b=vhost-user:/run/b --device /dev/vhost-vdpa-9
         refused 'name a device /dev/vhost-vdpa-N' tautline vdpa --port b=vhost-user:/run/b --device /dev/null",
    );
    // A port of a switch does not take a card for its own device, and leaves it on the bus at the end.
    lab.must(
        "start taken switch --port one=vduse:card1
         says taken 'has a device of this name; give the port another'; stop taken
         readlink /sys/bus/vdpa/devices/card1/driver | grep -q vhost_vdpa || failed the card was taken; rm /run/taken.log",
    );
}
