#!/bin/busybox sh
# The first process of a peer guest: takes commands from a virtio-serial port and answers with what they said.
# A request is one line: an id, a limit in seconds, the command in base64. An answer is a line of the id, the
# exit status and the sizes of standard output and error in bytes, and then both.
/bin/busybox --install -s /bin
export PATH=/programs:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /run /tmp /var /etc
mount -t devpts pts /dev/pts
ln -s /run /var/run
for module in $(cat /modules/order); do
    insmod "/modules/$module" || echo "init: $module does not load"
done
ip link set lo up
# What a guest of another kind does besides.
[ -e /start.sh ] && . /start.sh

port=
while [ -z "$port" ]; do
    for name in /sys/class/virtio-ports/*/name; do
        [ -e "$name" ] && [ "$(cat "$name")" = control ] && port=/dev/$(basename "$(dirname "$name")")
    done
    [ -n "$port" ] || sleep 0.1
done
exec 3<>"$port"
mkfifo /run/done
exec 4<>/run/done

# One process writes the answers, so that they do not mix. A line this short goes into the pipe whole.
while read -r id <&4; do
    out=$(stat -c %s "/run/$id.out") err=$(stat -c %s "/run/$id.err")
    {
        echo "$id $(cat "/run/$id.status") $out $err"
        head -c "$out" "/run/$id.out"
        head -c "$err" "/run/$id.err"
    } >&3
    rm "/run/$id".*
done &

execute() {
    echo "$3" | base64 -d >"/run/$1.sh"
    timeout -s KILL "$2" /programs/sh "/run/$1.sh" </dev/null >"/run/$1.out" 2>"/run/$1.err" 3>&- 4>&-
    echo $? >"/run/$1.status"
    echo "$1" >&4
}

echo ready >&3
while read -r id limit command <&3; do
    execute "$id" "$limit" "$command" &
done
poweroff -f
