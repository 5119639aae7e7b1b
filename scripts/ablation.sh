#!/bin/sh
# What each technique is worth: the queues built with one of them switched off, everything else the same.
# Columns: build, case, ns per buffer with the 95 % interval of the median, instructions per buffer. Burst 32,
# same thread, driver half and device half.
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
run() {
    name=$1
    shift
    cargo build --quiet --release -p tautline-virtqueue --example bench --target-dir target/ablation/build "$@"
    cp "target/ablation/build/$host/release/examples/bench" "target/ablation/bench-$name"
}
run all
for technique in barriers unroll prefetch inline; do
    run "$technique" --features "ablate-$technique"
done
run baseline --features ablate-barriers,ablate-unroll,ablate-prefetch,ablate-inline
printf '%-14s %-16s %7s %17s %8s\n' "off" "case" "ns" "95 % interval" "instr."
# Two passes in opposite order, so that drift of the machine shows instead of hiding.
for name in all barriers unroll prefetch inline baseline; do
    "target/ablation/bench-$name" ablation "$name"
done
echo "second pass, reverse order"
for name in baseline inline prefetch unroll barriers all; do
    "target/ablation/bench-$name" ablation "$name"
done
