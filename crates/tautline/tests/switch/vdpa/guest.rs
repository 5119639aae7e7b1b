//! A stock guest on the relay: QEMU is the front-end, under KVM, and the devices are cards behind an IOMMU.

use std::time::Duration;

use peers::guest::{INITRAMFS_WITHIN, KERNEL_WITHIN, Settings};

use super::lab::Lab;

/// What the guest runs: it fetches a file from the other end, and offers what it got.
const WITHIN: &str = "
    ip address add 10.77.0.1/24 dev eth0; ip link set eth0 up
    mkdir -p /tmp/www; until wget -q -O /tmp/www/file http://10.77.0.2/file; do sleep 0.2; done
    httpd -h /tmp/www
";

/// For what a guest boots in. The CPU of its host is emulated.
const BOOT: Duration = Duration::from_secs(180);

/// What the test uses in the machine's shell.
const FUNCTIONS: &str = r#"
    there() { ip netns exec there "$@"; }
    guest() { # guest NAME ARGUMENTS…: QEMU whose network device is served at the socket of the relay NAME
        mkfifo /run/$1.in /run/$1.out; cat /run/$1.out >/run/$1.monitor &
        /usr/bin/qemu-system-x86_64 -nodefaults -no-user-config -display none \
            -machine q35,accel=kvm,memory-backend=memory -cpu host -m 128M \
            -object memory-backend-memfd,id=memory,size=128M,share=on,prealloc=on \
            -kernel KERNEL -initrd INITRAMFS -append 'console=ttyS0 quiet panic=-1' -serial file:/run/$1.console \
            -chardev pipe,id=monitor,path=/run/$1 -mon chardev=monitor \
            -chardev socket,id=c,path=/run/$1.sock,reconnect=1 -netdev vhost-user,id=n,chardev=c \
            -device virtio-net-pci,netdev=n,mac=02:00:00:00:76:01,rombar=0 \
            $2 >/run/$1.qemu 2>&1 </dev/null &
        echo $! >/run/$1.guest
    }
    pings() { there ping -q -c 20 -i 0.05 -W 10 -s 1400 10.77.0.1 || failed ping; }
    file() { head -c 1048576 /dev/urandom >/tmp/www/file; md5sum </tmp/www/file >/run/sum; } # another one
    has_file() { there timeout $1 wget -q -O - http://10.77.0.1/file | md5sum | cmp -s - /run/sum; }
    tell() { echo "$2" >/run/$1.in; } # tell NAME COMMAND
    runs() { grep -q '^State:.[^Z]' /proc/$(cat /run/$1.guest)/status || failed the guest has ended; }
    booted() { # the guest has fetched the file, and gives it back
        n=0; until has_file 3; do
            n=$((n + 1)); [ $n -lt 120 ] || { tail -n 5 /run/*.qemu /run/*.monitor; tail -n 20 /run/*.console; failed no answer; }; sleep 0.5
        done
    }
    payload() { has_file 30 || failed another file, or none; }
"#;

struct Machine(Lab);

impl Machine {
    fn must(&self, line: &str) -> String {
        let functions = FUNCTIONS.replace("KERNEL", KERNEL_WITHIN).replace("INITRAMFS", INITRAMFS_WITHIN);
        self.0.must_within(&format!("{functions}\n{line}"), BOOT)
    }
}

#[test]
fn a_stock_guest_migrates_restarts_and_loses_its_device() {
    let lab = Lab::boot(Settings::default().size(1, 1280).vdpa().guest_within(WITHIN));
    lab.cards();
    lab.relay("one", "/dev/vhost-vdpa-0");
    lab.relay("two", "/dev/vhost-vdpa-1");
    let machine = Machine(lab);
    machine.must(
        "ulimit -l unlimited
         mkdir -p /tmp/www; file
         there httpd -p 10.77.0.2:80 -h /tmp/www
         guest one",
    );
    machine.must("booted; says one 'the device runs$'; payload; pings");
    migrates(&machine);
    // The guest's rings are the second device's after the guest has reset it.
    machine.must("file; tell two system_reset; booted; payload; pings");
    machine
        .must("tail -n 1 /run/two.log | grep -q 'the device runs$' || failed not on the rings of the guest");
    machine.must(
        "vdpa dev del card1 || failed vdpa dev del
         says two 'the vDPA device is gone; front-ends can connect again'
         runs two; kill $(cat /run/two.guest); stop two",
    );
}

/// From the first relay to the second, while the guest is pinged and gives a file.
fn migrates(machine: &Machine) {
    machine.must(
        "ip netns exec there ping -q -i 0.02 -c 1000000 10.77.0.1 >/run/pings & echo $! >/run/pings.pid
         guest two '-incoming unix:/run/migration'
         until_true [ -e /run/migration ] || failed no QEMU to migrate to
         tell one 'migrate_set_parameter downtime-limit 500'
         tell one 'migrate -d unix:/run/migration'",
    );
    machine.must(
        "n=0; until grep -q 'status: completed' /run/one.monitor; do
             n=$((n + 1)); [ $n -lt 100 ] || { cat /run/*.monitor /run/*.qemu; failed no migration; }
             tell one 'info migrate'; payload; sleep 0.2
         done
         payload; kill -INT $(cat /run/pings.pid); until_true ended pings || failed pings go on
         says one 'written pages are logged'; says two 'the device runs on the relay'
         tell one quit; stop one; pings",
    );
    let said = machine
        .must("grep -a 'time:' /run/one.monitor | tail -n 4; cat /run/pings; cat /run/one.log /run/two.log");
    println!("{said}");
}
