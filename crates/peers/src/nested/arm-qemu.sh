#!/bin/sh
# Starts a guest in the arm64 machine: QEMU with these arguments.
exec /guest/qemu/ld-linux-aarch64.so.1 --library-path /guest/qemu /guest/qemu/qemu-system-aarch64 -L /guest \
    -nodefaults -no-user-config -display none -no-reboot -machine virt,accel=kvm,gic-version=3 -cpu host -m 256M \
    -name guest,debug-threads=on -kernel /guest/kernel -initrd /guest/initramfs "$@"
