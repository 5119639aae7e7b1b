#!/bin/sh
# Builds what tests start in an arm64 machine: the program, and a guest of which the exits and the time are known. Prints
# their folder. scripts/cross.sh says with which compiler.
set -eu
cd "$(dirname "$0")/.."
ARCH=aarch64
. scripts/cross.sh
# The machine has all its files in memory.
export CARGO_PROFILE_DEV_DEBUG=none
"$cargo" build --quiet --locked --target "$target" -p tautline -p tautline-kvm --bin tautline --example known_guest >&2
realpath "$CARGO_TARGET_DIR/$target/debug"
