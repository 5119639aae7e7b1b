#!/bin/sh
# Checks the workspace with the oldest Rust that Cargo.toml promises (rust-version). Where that toolchain is
# neither installed nor to be had from rustup, two checks stand in for it, which `make test` runs in any case:
# clippy's incompatible_msrv (what the standard library has had since when), and the test `oldest_rust` (what
# the dependencies ask for).
set -eu
cd "$(dirname "$0")/.."
. scripts/absent.sh
oldest=$(sed -n 's/^rust-version = "\([^"]*\)".*/\1/p' Cargo.toml)

check() { echo "oldest Rust: checking with $("$@" --version)"; "$@" check --locked --workspace --target-dir target/oldest; }

if cargo --version | grep -q "^cargo $oldest\."; then
    echo "oldest Rust: $oldest is what everything is tested with"
elif command -v "cargo-$oldest" >/dev/null 2>&1; then
    RUSTC=rustc-$oldest check "cargo-$oldest"
elif command -v rustup >/dev/null 2>&1 &&
    { rustup toolchain list | grep -q "^$oldest" || timeout 120 rustup toolchain install "$oldest" --profile minimal >/dev/null 2>&1; }; then
    check rustup run "$oldest" cargo
else
    absent oldest-rust "Rust $oldest is not installed, and rustup toolchain install $oldest does not fetch it;
  clippy::incompatible_msrv and the test oldest_rust stand in for it"
    grep -q '^all = ' Cargo.toml # incompatible_msrv is among clippy::all
fi
