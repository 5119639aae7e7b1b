#!/bin/sh
# real-guests.sh TAUTLINE FOLDER: `compare`, `kvm costs`, `kvm path` and `host interrupts` with guests that KVM runs;
# their results go to FOLDER. Needs root by `sudo -n` for a TAP device and for tracing, and what `scripts/setup.sh test`
# installs. With ACCEL=tcg the guest alone is started and asked, which tries this script where KVM boots no guest.
set -eu
tautline=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
accel=${ACCEL:-kvm}
work=$(mktemp -d)
tap=tautline-rg
guest= ping=
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
end() {
    [ -z "$ping" ] || kill "$ping" 2>/dev/null || :
    [ -z "$guest" ] || kill "$guest" 2>/dev/null || :
    as_root ip link delete "$tap" 2>/dev/null || :
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

# --- a guest: a stock kernel, busybox, one virtio-net card, and its interrupts by its second serial line ----------
kernels=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel
kernel=$(ls "$kernels"/vmlinuz-* | sort | tail -n 1)
modules=$kernels/modules/${kernel##*/vmlinuz-}
root=$work/root
mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev"
cp "$(command -v busybox)" "$root/bin/busybox"
# One that is built into the kernel has no file.
drivers='virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net'
for driver in $drivers; do
    file=$(find "$modules" -name "$driver.ko*" | head -n 1)
    case $file in
    '') ;;
    *.xz) xz -dc "$file" >"$root/modules/$driver.ko" ;;
    *.zst) zstd -qdc "$file" >"$root/modules/$driver.ko" ;;
    *) cp "$file" "$root/modules/$driver.ko" ;;
    esac
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc && mount -t sysfs none /sys && mount -t devtmpfs none /dev
# Kernels differ in which of these needs which: each pass loads those whose needs are there.
for pass in 1 2 3; do
    for driver in $drivers; do [ ! -f /modules/\$driver.ko ] || insmod /modules/\$driver.ko 2>/dev/null; done
done
ip link set eth0 up && ip address add 10.98.76.2/24 dev eth0
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo ready >&3
while read -r line <&3; do cat /proc/interrupts >&3; echo end >&3; done
INIT
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs"

as_root ip tuntap add "$tap" mode tap user "$(id -un)"
as_root ip address add 10.98.76.1/24 dev "$tap"
as_root ip link set "$tap" up
cpu=host
[ "$accel" = kvm ] || cpu=max
qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -smp 2 -m 512 -nodefaults -display none -no-reboot \
    -kernel "$kernel" -initrd "$work/initramfs" -append 'console=ttyS0 quiet panic=-1' \
    -serial "file:$out/guest-console.txt" -serial "unix:$work/serial,server=on,wait=off" \
    -netdev "tap,id=net,ifname=$tap,script=no,downscript=no" -device virtio-net-pci,netdev=net,romfile= &
guest=$!
# Asks the guest for its interrupts: `host interrupts` runs this before and after.
cat >"$work/interrupts" <<ASK
#!/usr/bin/env python3
import socket
line = socket.socket(socket.AF_UNIX)
line.settimeout(60)
line.connect("$work/serial")
line.sendall(b"\\n")
text = b""
while not text.replace(b"\\r", b"").endswith(b"\\nend\\n"):
    got = line.recv(65536)
    if not got:
        raise SystemExit("the guest closed its serial line")
    text += got
print(text.decode().replace("\\r", "").removesuffix("end\\n").replace("ready\\n", ""), end="")
ASK
chmod +x "$work/interrupts"
tries=0
until ping -c 1 -W 1 -I "$tap" 10.98.76.2 >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 90 ] || ! kill -0 "$guest" 2>/dev/null; then
        echo "the guest did not answer a ping; its console is $out/guest-console.txt" >&2
        exit 1
    fi
done
"$work/interrupts" >"$out/guest-interrupts.txt"
grep -q virtio "$out/guest-interrupts.txt"
[ "$accel" = kvm ] || exit 0

# --- what is measured --------------------------------------------------------------------------------------------
"$tautline" kvm costs --output "$out/kvm-costs.json" >"$out/kvm-costs.txt"
ping -q -i 0.02 -I "$tap" 10.98.76.2 >"$out/ping.txt" 2>&1 &
ping=$!
for way in net-rx net-tx interrupt; do
    as_root "$tautline" kvm path "$way" --pid "$guest" --time 2s --output "$out/kvm-path-$way.json" >"$out/kvm-path-$way.txt"
done
as_root "$tautline" host interrupts --pid "$guest" --guest "$work/interrupts" --time 5s \
    --output "$out/host-interrupts.json" >"$out/host-interrupts.txt"
kill "$ping" "$guest"
ping= guest=
as_root "$tautline" host audit --output "$out/host-audit.json" >"$out/host-audit.txt"
"$tautline" compare --quick --output "$out/compare.json" --html "$out/compare.html" >"$out/compare.txt"
cat "$out/compare.txt"
