#!/bin/sh
# All tests, in layers: what is fast first. Called by `make test`, which has set up what they need.
set -eu
layer() { printf '\n=== %s\n' "$1"; shift; "$@"; }

layer 'format' cargo fmt --check
if cargo clippy --version >/dev/null 2>&1; then
    layer 'lints' cargo clippy --locked --workspace --all-targets -- -D warnings
else
    echo 'lints: not run, this Rust has no clippy (Debian: rust-web-clippy)'
fi
layer 'dependencies: licences, sources, unused, advisories' scripts/dependencies.sh
layer 'oldest Rust' scripts/oldest-rust.sh
layer 'build' cargo build --locked --workspace --release
layer 'unit and integration tests' cargo test --locked --workspace
layer 'virtqueue: loom, instruction limits, aarch64' make test-virtqueue-extra
layer 'switch: instruction limits' make test-switch-extra
layer 'release: made, installed, started' make test-dist
