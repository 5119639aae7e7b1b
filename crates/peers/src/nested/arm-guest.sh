#!/bin/busybox sh
# The first process of a guest within the arm64 machine. It answers pings to 10.0.0.2, and after a connection to its port 9
# it sends one each 50 ms that no host answers. It says which interrupt controller it has.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    insmod "/modules/$module"
done
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
ip link set eth0 up
ip address add 10.0.0.2/24 dev eth0
grep -o -m 1 'GICv[23]' /proc/interrupts
echo up
nc -l -p 9 </dev/null
arp -s 10.0.0.9 52:54:00:00:0f:0f
ping -i 0.05 10.0.0.9 >/dev/null
while :; do sleep 1000; done
