#!/bin/sh
# Tests `memory`, `virtqueue` and what `kvm` has there under user-mode emulation of aarch64, and reads the code
# that the compiler makes for the queues: load-acquire and store-release on the hot path, no full barrier outside notification
# suppression. Uses the distribution's toolchain, which has a Rust standard library for arm64.
set -eu
cd "$(dirname "$0")/.."

packages="qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross rustc-web cargo-web binutils-aarch64-linux-gnu"
missing=""
for package in $packages libstd-rust-web-dev:arm64; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "aarch64: missing packages. As root: dpkg --add-architecture arm64 && apt-get update && apt-get install$missing" >&2
        exit 1
    fi
    echo "aarch64: installing$missing"
    dpkg --add-architecture arm64
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing
fi

# The distribution's cargo and rustc by name: a rustup toolchain on PATH has no arm64 standard library.
bin=/usr/lib/rust-web/bin
[ -x "$bin/cargo" ] || bin=/usr/bin
export RUSTC="$bin/rustc" RUSTDOC="$bin/rustdoc"
export CARGO_TARGET_DIR=target/aarch64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static"
target=aarch64-unknown-linux-gnu

echo "aarch64: tests under emulation"
# Fewer cases than natively: emulation costs a factor of ten and more.
PROPTEST_CASES=${PROPTEST_CASES:-150} "$bin/cargo" test --locked --target $target -p memory -p virtqueue -p kvm

echo "aarch64: reading the generated code"
"$bin/cargo" build --locked --release --target $target -p virtqueue --example hot
scripts/aarch64-barriers.sh $CARGO_TARGET_DIR/$target/release/examples/hot
