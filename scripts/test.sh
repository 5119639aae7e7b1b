#!/bin/sh
# All tests, in layers: what is fast first. Called by `make test`, which has set up what they need.
set -eu
layer() { printf '\n=== %s\n' "$1"; shift; "$@"; }

layer 'format' cargo fmt --check
layer 'dependencies: licences, sources, unused, advisories' scripts/dependencies.sh
layer 'lints, oldest Rust, builds: two at a time' make -j2 --output-sync=target checks
# bench-peers' tests need the program, which is another crate's: by the build that has just been made.
export TAUTLINE_PROGRAM="$PWD/target/$(rustc -vV | sed -n 's/^host: //p')/debug/tautline"
# To the end: one run names all that fail.
layer 'unit and integration tests' cargo test --locked --workspace --no-fail-fast
layer 'virtqueue: instruction limits, aarch64' make test-virtqueue-extra
layer 'switch: instruction limits' make test-switch-extra
layer 'release: made, installed, started' make test-dist
