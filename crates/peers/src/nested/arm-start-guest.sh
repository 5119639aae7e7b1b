#!/bin/sh
# Starts a guest in the arm64 machine: QEMU with these arguments.
exec qemu-system-aarch64 -nodefaults -no-user-config -display none -no-reboot -machine virt,accel=kvm -cpu host -m 256M \
    -name guest,debug-threads=on -kernel /guest/kernel -initrd /guest/initramfs "$@"
