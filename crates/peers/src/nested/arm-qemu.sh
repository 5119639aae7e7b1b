#!/bin/sh
# QEMU in the arm64 machine, whose programs are static otherwise.
exec /guest/qemu/ld-linux-aarch64.so.1 --library-path /guest/qemu /guest/qemu/qemu-system-aarch64 -L /guest "$@"
