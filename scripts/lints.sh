#!/bin/sh
# clippy over all sources.
set -eu
cd "$(dirname "$0")/.."
. scripts/absent.sh
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --locked --workspace --all-targets -- -D warnings
else
    absent clippy 'this Rust has no clippy (Debian: rust-web-clippy, rustup: component add clippy)'
fi
