#!/bin/sh
# Tests `memory`, `virtqueue` and what `kvm` has there under user-mode emulation of aarch64, and reads the code that
# the compiler makes for each path of the queues: load-acquire and store-release, no barrier outside
# notification suppression. scripts/cross.sh says with which compiler. With `build`, it builds and runs nothing.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh test
ARCH=aarch64
. scripts/cross.sh

# All of virtqueue's tests but loom: its models are the same on every processor, and explored natively.
queues=$(for file in crates/virtqueue/tests/*.rs; do basename "$file" .rs; done | grep -vx loom | sed 's/^/--test /')
tests() {
    "$cargo" test --locked --target "$target" -p tautline-memory -p tautline-kvm "$@"
    "$cargo" test --locked --target "$target" -p tautline-virtqueue --lib $queues "$@"
}
# Symbols that name the types, so that the layouts of a ring can be told apart.
examples() {
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS='-C symbol-mangling-version=v0' "$cargo" build --locked --release \
        --target "$target" -p tautline-virtqueue --example hot
}
if [ "${1:-}" = build ]; then
    tests --no-run
    examples
    exit
fi

echo "aarch64: tests under emulation"
# The emulator of user programs has none of KVM's requests.
TAUTLINE_SKIP="${TAUTLINE_SKIP:+$TAUTLINE_SKIP,}kvm"
export TAUTLINE_SKIP
# Fewer cases than natively: emulation costs a factor of ten and more.
PROPTEST_CASES=${PROPTEST_CASES:-150} tests

# Alone, and with what ran: the emulator has a thread for each CPU, and the halves of a ring are on two.
echo "aarch64: two threads on two emulated CPUs"
"$cargo" test --quiet --locked --target "$target" -p tautline-virtqueue --test two_threads -- --nocapture

echo "aarch64: reading the generated code"
examples
scripts/aarch64-barriers.sh "$built/examples/hot"
