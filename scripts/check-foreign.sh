#!/bin/sh
# Checks the sources for the other of the two processors: types and borrows, no code; then builds what tests start in a
# machine of that processor. scripts/cross.sh says with which compiler.
set -eu
cd "$(dirname "$0")/.."
case $(uname -m) in
x86_64) ARCH=aarch64 ;;
*) ARCH=x86_64 ;;
esac
. scripts/cross.sh
"$cargo" check --locked --workspace --target "$target"
# Also what `make compare` builds, which no test has.
"$cargo" check --locked --target "$target" -p tautline --no-default-features
[ "$ARCH" = x86_64 ] || scripts/arm-programs.sh
