//! Network interfaces of a kernel on the switch, without TAPs (VDUSE), in a guest whose kernel has it. One interface is
//! in a container, so that frames between the two pass the switch.
mod calls;
mod lab;

use std::path::Path;
use std::time::Duration;

use measure::Results;
use measure::network::NetworkTrial;
use peers::guest::{INITRAMFS_WITHIN, KERNEL_WITHIN, Settings};

use lab::Lab;

#[test]
fn a_kernel_has_interfaces_on_the_switch_and_keeps_them_when_the_switch_is_killed() {
    // `compare` enters namespaces, and holds them with a `cat` that reads before it writes, as busybox's does not.
    let programs = ["setpriv", "cat", "strace", "crun"].map(|name| Path::new("/usr/bin").join(name));
    let settings = Settings::default().size(1, 512).vduse();
    let lab = Lab::boot(programs.iter().fold(settings, |settings, program| settings.program(program)));
    let doctor = lab.must("tautline doctor --require vduse");
    assert!(doctor.contains("created, opened and destroyed a network device; version 0"), "{doctor}");
    assert!(doctor.contains("takes no control queue"), "{doctor}");
    page(&lab);
    refusals(&lab);
    let [over_taps, over_vduse] = compared(&lab);
    let tap = calls::of_taps(&lab, over_taps);
    for (options, layout) in [(",packed=off", "split"), ("", "packed")] {
        lab.start(options);
        lab.check(layout);
        lab.killed_under_traffic(options);
        if layout == "packed" {
            lab.taken_over_under_traffic(options);
        }
        calls::compare(&lab, layout, &tap, over_vduse);
        if layout == "packed" {
            lab.given_up();
        }
        lab.end();
    }
}

/// `compare` builds paths over TAPs, and over two interfaces, to a container, and leaves nothing behind. Returns the copies
/// of a frame that it states for both. The runtime of containers changes the root file system, for which that must be a
/// mount: the guest's is its kernel's first one.
fn compared(lab: &Lab) -> [u32; 2] {
    let said = lab.must_within(
        "mount -t cgroup2 none /sys/fs/cgroup && mkdir /run/all && mount --rbind / /run/all || failed mount
         chroot /run/all tautline compare --quick --only net.container_switch.udp_rr,net.container_vduse.udp_rr \
             --environments host,container --blocks 1 --output /run/compared.json --tables 2>&1 || failed compare
         [ -z \"$(ls /sys/bus/vdpa/devices)\" ] || failed left on the bus",
        Duration::from_secs(150),
    );
    println!("{said}");
    let results: Results = serde_json::from_str(&lab.must("cat /run/compared.json")).unwrap();
    assert!(results.absences.is_empty(), "{:?}", results.absences);
    ["container_switch", "container_vduse"].map(|name| {
        let of_path = |trial: &&NetworkTrial| trial.counts && trial.metric.to_string().contains(name);
        let trials: Vec<_> = results.network.trials.iter().filter(of_path).collect();
        assert!(!trials.is_empty(), "{name}: {:?}", results.network);
        for trial in trials {
            assert_eq!(trial.sent, trial.received + trial.lost, "{trial:?}");
            assert!(trial.received > 0 && trial.cost.calls > 0, "{trial:?}");
        }
        let path = results.network.paths.iter().find(|path| path.name == name).unwrap();
        let copies = path.copies.expect("the copies");
        assert_eq!(copies.from_near, copies.from_far, "{path:?}");
        copies.from_near
    })
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

/// How long the guest within may take to boot and to give back what it fetched. It boots under a KVM that is emulated:
/// 60 s were not enough for it beside other tests.
const BOOT: Duration = Duration::from_secs(180);

/// What the guest within runs: it fetches a file, and offers what it got.
const WITHIN: &str = "
    ip address add 10.77.0.9/24 dev eth0; ip link set eth0 up
    mkdir -p /tmp/www; until wget -q -O /tmp/www/file http://10.77.0.1/file; do sleep 0.5; done
    httpd -h /tmp/www
";

/// On a later kernel. Besides, `/dev/vhost-vdpa-N` of a port is driven by DPDK, and by a guest of QEMU.
///
/// This kernel may end at a breakpoint that is no longer in its code, a fault of the emulator (docs/nested.md).
#[test]
fn a_later_kernel_has_interfaces_and_gives_devices_to_dpdk_and_guests() {
    peers::standstill::once_more(a_later_kernel);
}

fn a_later_kernel() {
    let (testpmd, drivers) = peers::testpmd::files().unwrap_or_else(|error| panic!("{error}"));
    let settings = Settings::default().size(2, 1536).later_vduse().guest_within(WITHIN).program(&testpmd);
    let lab = Lab::boot(drivers.iter().fold(settings, |settings, file| settings.file(file, file)));
    let doctor = lab.must("tautline doctor --require vduse");
    assert!(doctor.contains("version 1 of the interface takes no control queue"), "{doctor}");
    lab.start("");
    lab.check("packed");
    lab.killed_under_traffic("");
    lab.end();
    start_for_others(&lab);
    dpdk(&lab);
    guest(&lab);
    lab.end();
}

/// A switch with an interface and a port for other drivers.
fn start_for_others(lab: &Lab) {
    lab.must(
        "switch --port near=vduse:near --port far=vduse:far,driver=vhost_vdpa
         until_true interface near || failed no interface
         until_true [ -e /dev/vhost-vdpa-0 ] || failed no device
         near=$(interface near)
         ip address add 10.77.0.1/24 dev $near && ip link set $near up",
    );
}

/// DPDK answers pings, with packed rings. `ping` compares what comes back with what it sent. The kernel copies a frame
/// once, for its own interface: DPDK's memory is the other device's.
fn dpdk(lab: &Lab) {
    let said = lab.must(
        "chmod 755 / # DPDK loads no driver from below a folder that all may write to.
         ulimit -l unlimited; mkfifo /run/in
         dpdk-testpmd --no-huge -m 256 --no-pci --no-telemetry --no-shconf --lcores 0@0,1@1 \
             --vdev net_virtio_user0,path=/dev/vhost-vdpa-0,queues=1,packed_vq=1,mac=02:00:00:00:00:02 \
             -- -i --forward-mode=icmpecho --total-num-mbufs=4096 </run/in >/run/testpmd 2>&1 &
         testpmd=$!
         exec 5>/run/in; echo start >&5
         n=0; until ping -c 1 -W 1 10.77.0.2 >/dev/null; do
             n=$((n + 1)); [ $n -lt 30 ] || { cat /run/testpmd; failed ping; }
         done
         near=$(interface near); count_bounces
         passed() { set -- $(counted rx $near) $(counted tx $near); echo $(($1 + $3)) $(bounces); }
         passed >/run/passed
         ping -q -c 20 -i 0.05 -W 10 -s 1400 10.77.0.2 || { cat /run/testpmd; failed ping; }
         set -- $(cat /run/passed) $(passed); frames=$(($3 - $1)) bounces=$(($4 - $2))
         echo $frames frames, $bounces copies by the kernel
         [ $frames -ge 40 ] && [ $bounces -ge $frames ] && [ $bounces -le $((frames + 6)) ] || failed not one copy of each
         tautline ctl /run/ctl ports | grep -q 'far: .*connected, packed' || failed not packed
         echo quit >&5; exec 5>&-; wait $testpmd || { cat /run/testpmd; failed testpmd; }",
    );
    println!("{said}");
}

/// A guest of QEMU under KVM fetches a file from the machine's kernel, and the machine's kernel fetches that back.
fn guest(lab: &Lab) {
    lab.must(&format!(
        "ulimit -l unlimited; ip neigh flush all; httpd -p 10.77.0.1:80 -h /tmp/www
         /usr/bin/qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
             -machine q35,accel=kvm,memory-backend=memory -cpu host -m 256M \
             -object memory-backend-memfd,id=memory,size=256M,share=on \
             -kernel {KERNEL_WITHIN} -initrd {INITRAMFS_WITHIN} -append 'console=ttyS0 quiet panic=-1' \
             -serial file:/run/console -netdev vhost-vdpa,id=n,vhostdev=/dev/vhost-vdpa-0 \
             -device virtio-net-pci,netdev=n,mac=02:00:00:00:00:03,iommu_platform=on,disable-legacy=on,rombar=0 \
             >/run/qemu 2>&1 </dev/null &
         echo $! >/run/guest.pid"
    ));
    let fetch = || {
        lab.must_within(
        &format!(
            "from=$(cut -d . -f 1 /proc/uptime); waited() {{ echo $(($(cut -d . -f 1 /proc/uptime) - from)); }}
             until wget -q -O /run/back http://10.77.0.9/file; do
                 [ $(waited) -lt {} ] || {{ cat /run/qemu /run/console; tautline ctl /run/ctl ports; failed no answer; }}
                 sleep 0.5
             done
             echo the guest gave the file back after $(waited) s
             md5sum </run/back | cmp - /run/sum || failed not the same
             guest=$(cat /run/guest.pid); kill $guest; killall httpd
             until_true eval '! grep -q ^State:.[^Z] /proc/$guest/status' || failed QEMU is still there",
            BOOT.as_secs()
        ),
        BOOT + Duration::from_secs(60),
    )
    };
    println!("{}", lab.watch_guests(fetch));
}
