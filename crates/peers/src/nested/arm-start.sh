# Sourced by the first process of an arm64 machine, before it takes commands.
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
