//! A stock guest on the relay: QEMU is the front-end, under KVM, and the devices are cards behind an IOMMU.

use std::time::Duration;

use peers::guest::{INITRAMFS_WITHIN, KERNEL_WITHIN, Settings, VDPA_CARDS};

use super::lab::{Lab, page};

/// What the guest runs: it fetches a file from the other end, and offers what it got, and programs. `renew` has the driver
/// reset the device and begin again. `dirty` writes to 8 MiB of memory. What a connection to port 5000 brings stays in the
/// kernel's buffers, and so in the pages into which the card has written, until the program `read` runs. `full` shows how
/// much is there.
const WITHIN: &str = r#"
    ip address add 10.77.0.1/24 dev eth0; ip link set eth0 up
    mkdir -p /tmp/www/cgi-bin; until wget -q -O /tmp/www/file http://10.77.0.2/file; do sleep 0.2; done
    program() { printf '#!/bin/sh\n%s\n' "$2" >$1; chmod 755 $1; }
    program /tmp/renew 'cd /sys/bus/virtio/drivers/virtio_net; device=$(echo virtio*)
        echo $device >unbind; echo $device >bind
        ip address add 10.77.0.1/24 dev eth0; ip link set eth0 up; echo >/tmp/www/renewed'
    program /tmp/hold 'until [ -e /tmp/read ]; do sleep 0.2; done
        md5sum >/tmp/www/held.part; mv /tmp/www/held.part /tmp/www/held'
    page() { program /tmp/www/cgi-bin/$1 "echo Content-type: text/plain; echo; $2"; }
    page renew '/tmp/renew >/dev/null 2>&1 & echo begun'
    page dirty 'head -c 8388608 /dev/urandom >/tmp/dirty; echo ended'
    page full 'grep -h ":1388 " /proc/net/tcp /proc/net/tcp6'
    page read 'echo >/tmp/read; echo begun'
    nc -l -p 5000 -e /tmp/hold &
    httpd -h /tmp/www
"#;

/// For what a guest boots in. The CPU of its host is emulated.
const BOOT: Duration = Duration::from_secs(180);

/// What the test uses in the machine's shell.
const FUNCTIONS: &str = r#"
    there() { ip netns exec there "$@"; }
    guest() { # guest NAME ARGUMENTS…: QEMU whose network device is served at the socket of the relay NAME
        to=$1; shift
        mkfifo /run/$to.in /run/$to.out; cat /run/$to.out >/run/$to.monitor &
        PAGE_QEMU -nodefaults -no-user-config -display none -cpu host \
            -kernel KERNEL -initrd INITRAMFS -append 'console=ttyS0 quiet panic=-1' -serial file:/run/$to.console \
            -chardev pipe,id=monitor,path=/run/$to -mon chardev=monitor \
            "$@" >/run/$to.qemu 2>&1 </dev/null &
        echo $! >/run/$to.guest
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
    answers() { until_true there ping -c 1 -W 1 10.77.0.1 || { tail -n 5 /run/*.qemu; failed no answer; }; }
    payload() { has_file 60 || failed another file, or none; }
    begin_pings() { ip netns exec there ping -q -i 0.02 -c 1000000 10.77.0.1 >/run/pings & echo $! >/run/pings.pid; }
    end_pings() { kill -INT $(cat /run/pings.pid); until_true ended pings || failed pings go on; cat /run/pings; }
    until_true() { # until_true COMMAND…: within 60 s
        until_then=$(($(date +%s) + 60))
        until "$@" >/dev/null 2>&1; do [ $(date +%s) -lt $until_then ] || return 1; sleep 0.1; done
    }
    offers() { there timeout 30 wget -q -O /run/offered http://10.77.0.1/$1; }
    offered() { until_true offers $1 || { tail -n 20 /run/*.console; failed the guest offers no $1; }; } # offered FILE
    is_full() { offers cgi-bin/full && grep ':1388 .* 0[1-8] 00000000:0000400[01] ' /run/offered; } # 16,384 bytes
    logged() { [ $(grep -c 'written pages are logged' /run/one.log) -ge $1 ]; } # logged TIMES
    valve() { # a stream of which as much passes as the lines of /run/chunks say: blocks of 64 KiB, or all
        mkfifo /run/chunks /run/stream; : >/run/passed
        echo 'exec 3<>/run/chunks; while read n <&3; do
                  [ $n != all ] || exec cat; dd bs=65536 count=$n iflag=fullblock 2>/dev/null; echo $n >>/run/passed
              done' >/run/valve.sh
    }
    passed() { [ $(grep -c . /run/passed) -gt $1 ]; } # passed LINES: more than those
    told() { [ $(grep -c '^dirty sync count' /run/one.monitor) -gt $1 ]; }
    rounds() { # how often QEMU has asked which pages were written
        times=$(grep -c '^dirty sync count' /run/one.monitor); tell one 'info migrate'; until_true told $times || return 1
        sed -n 's/^dirty sync count: \([0-9]*\).*/\1/p' /run/one.monitor | tail -n 1
    }
    let_through() { # let_through ROUNDS: the guest's memory, 2 MiB at a time
        lines=0; until [ $(rounds) -ge $1 ]; do
            lines=$((lines + 1)); [ $lines -lt 100 ] || failed too much memory
            before=$(grep -c . /run/passed); echo 32 >/run/chunks; until_true passed $before || failed the stream stands still
        done
    }
"#;

/// The page's QEMU, with less memory, the card's address and another socket, and without the disk.
fn qemu_of_page() -> String {
    let [_, qemu]: [String; 2] = page(1).try_into().expect("the relay and QEMU");
    let replaced = [
        ("qemu-system-x86_64", "/usr/bin/qemu-system-x86_64"),
        ("1G", "128M"),
        ("share=on", "share=on,prealloc=on"),
        ("/run/guest.sock", "/run/$to.sock"),
        ("mac=52:54:00:12:34:56", "mac=02:00:00:00:76:01,rombar=0"),
        ("-drive file=guest.qcow2,if=virtio", ""),
    ];
    replaced.into_iter().fold(qemu, |qemu, (from, to)| {
        assert!(qemu.contains(from), "{from} is not in {qemu}");
        qemu.replace(from, to)
    })
}

struct Machine(Lab);

impl Machine {
    fn must(&self, line: &str) -> String {
        let functions = FUNCTIONS.replace("PAGE_QEMU", &qemu_of_page());
        let functions = functions.replace("KERNEL", KERNEL_WITHIN).replace("INITRAMFS", INITRAMFS_WITHIN);
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
    comes_back(&machine);
    machine.must("runs two; kill $(cat /run/two.guest); stop two");
}

/// The second device goes and comes back, then its relay is killed and started again. Each time QEMU connects anew, and the
/// guest goes on in the middle of its rings, with the file that it has.
fn comes_back(machine: &Machine) {
    machine.must(&format!(
        "vdpa dev del card1 || failed vdpa dev del
         says two 'the vDPA device is gone; front-ends can connect again'
         ! there ping -c 1 -W 1 10.77.0.1 || failed an answer without a device
         runs two; card card1 {}; answers; payload; pings",
        VDPA_CARDS[1]
    ));
    machine.must(
        "kill -KILL $(cat /run/two.pid); until_true ended two || failed the relay is still there
         ! there ping -c 1 -W 1 10.77.0.1 || failed an answer without a relay",
    );
    machine.0.relay("two", "/dev/vhost-vdpa-1");
    machine.must("answers; payload; pings");
}

/// The time between two pings in milliseconds.
const INTERVAL_MS: u32 = 20;

/// How long the guest may be without answers each time its device gets other rings, in milliseconds. On emulated CPUs beside
/// other work it takes 0.3 s.
const CHANGE_MS: u32 = 5000;

/// The longest downtime in milliseconds, as QEMU counts it. QEMU's own limit is 500, from an estimate.
const DOWNTIME_MS: u32 = 5000;

/// For how many milliseconds the guest gave no answer, and the number of pings, from the last lines of `ping`: the longest
/// wait for an answer, and the time of pings that had none.
fn unanswered(said: &str) -> [u32; 2] {
    let line = said.lines().find(|line| line.contains("packets transmitted")).expect("ping's last lines");
    let number = |part: &str| -> u32 {
        let (before, _) = line.split_once(part).unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (sent, received) = (number(" packets transmitted"), number(" received"));
    let times =
        said.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = ")).expect("an answer");
    let longest = times.split('/').nth(2).and_then(|ms| ms.split('.').next()).expect("the longest time");
    [longest.parse::<u32>().unwrap() + (sent - received) * INTERVAL_MS, sent]
}

/// From the first relay to the second, while the guest is pinged and gives a file. A valve holds the stream, so that the
/// migration ends when the test is ready. Before, the guest's driver resets the device, so that other rings and another log
/// begin, and the card writes into memory that has passed already, and that the guest's CPU does not touch. If a write of the
/// card is not logged, that memory is another one on the other side.
fn migrates(machine: &Machine) {
    let begun = machine.must(
        "valve; guest two -incoming 'exec:cat /run/stream'; begin_pings
         tell one 'migrate_set_parameter downtime-limit 1'
         tell one 'migrate -d \"exec:sh /run/valve.sh >/run/stream\"'
         until_true logged 1 || failed no log; payload; end_pings",
    );
    machine.must(
        "offers cgi-bin/renew; offered renewed; until_true logged 2 || failed no log after a reset
         payload; offered cgi-bin/dirty; let_through 2",
    );
    // The buffers in the card's ring were new before the second round, so that they pass in it.
    machine.must("offered cgi-bin/dirty; let_through 3");
    machine.must(
        "head -c 16384 /dev/urandom >/run/held.data; md5sum </run/held.data >/run/held.sum
         there nc 10.77.0.1 5000 </run/held.data >/dev/null 2>&1 & until_true is_full || { cat /run/offered; failed not full; }
         ! grep -q 'status: completed' /run/one.monitor || failed it has ended before",
    );
    let ended = machine.must(
        "begin_pings; tell one 'migrate_set_parameter downtime-limit 500'; echo all >/run/chunks
         n=0; until grep -q 'status: completed' /run/one.monitor; do
             n=$((n + 1)); [ $n -lt 100 ] || { cat /run/*.monitor /run/*.qemu; failed no migration; }
             tell one 'info migrate'; payload; sleep 0.2
         done
         payload; end_pings
         says two 'the device runs on the relay'; tell one quit; stop one; pings",
    );
    machine.must(
        "offered cgi-bin/read; offered held; cmp /run/held.sum /run/offered || failed not what the card has written",
    );
    let said = machine.must("cat /run/one.monitor; cat /run/one.log /run/two.log");
    let time = |name: &str| {
        let line = said.lines().rev().find_map(|line| line.trim().strip_prefix(name)).expect("QEMU's line");
        line.trim().split(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let (total, downtime) = (time("total time:"), time("downtime:"));
    let [at_begin, at_end] = [unanswered(&begun), unanswered(&ended)];
    println!(
        "migrated in {total} ms, downtime {downtime} ms; ms without an answer, of pings {INTERVAL_MS} ms apart: at the begin \
         {at_begin:?}, at the end {at_end:?}"
    );
    assert!(downtime <= DOWNTIME_MS, "{said}");
    assert!(at_begin[0] <= CHANGE_MS, "{begun}\n{said}");
    assert!(at_end[0] <= downtime + CHANGE_MS, "{ended}\n{said}");
}
