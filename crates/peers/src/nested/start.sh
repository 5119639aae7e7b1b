# Sourced by the first process of a nested machine, before it takes commands.
export PATH=$PATH:/usr/bin
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mkdir -p /dev/shm /dev/virtio-ports
mount -t tmpfs shm /dev/shm
echo /bin/modprobe >/proc/sys/kernel/modprobe
modprobe "$(grep -q svm /proc/cpuinfo && echo kvm_amd || echo kvm_intel)"

# Each of its serial ports by the name that the host gave to it.
for name in control data guest; do
    while ! port=$(grep -lx "$name" /sys/class/virtio-ports/*/name); do
        sleep 0.1
    done
    ln -s "/dev/$(basename "$(dirname "$port")")" "/dev/virtio-ports/$name"
done
