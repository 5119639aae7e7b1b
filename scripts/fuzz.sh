#!/bin/sh
# Fuzzes the queues for SECONDS each (default 60): hostile driver and hostile device, guided by coverage,
# then both again with a concurrently writing thread, then the fast unguided loop. What libFuzzer finds new
# goes to fuzz/found (not kept); failures go to fuzz/artifacts. fuzz/corpus holds 100 scripts a target: those that
# libFuzzer's -set_cover_merge=1 -use_counters=0 -use_cmp=0 keeps, which reach every edge that a larger corpus
# reached, and the longest of those that -set_cover_merge=1 keeps besides.
set -eu
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-60}
loop=${EXECUTIONS:-20000000}
root=$(pwd)
mkdir -p fuzz/artifacts fuzz/found
host=$(rustc -vV | sed -n 's/^host: //p')

# The coverage counters of libFuzzer without cargo-fuzz: plain compiler flags. No static linking here.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1"
(cd fuzz && cargo +nightly build --release --target "$host" --target-dir "$root/target/libfuzzer")
unset RUSTFLAGS
for target in hostile_driver hostile_device; do
    for concurrent in "" 1; do
        mkdir -p "fuzz/found/$target"
        echo "fuzz: $target${concurrent:+, concurrent} for $seconds s"
        log=fuzz/found/$target.log
        status=0
        env ${concurrent:+FUZZ_CONCURRENT=1} "target/libfuzzer/$host/release/$target" \
            -max_total_time="$seconds" -max_len=512 -print_final_stats=1 -verbosity=0 \
            -artifact_prefix=fuzz/artifacts/ "fuzz/found/$target" "fuzz/corpus/$target" >"$log" 2>&1 || status=$?
        # A log without these words is no failure; the fuzzer's own status is judged below.
        grep -E 'stat::number_of_executed_units|panicked|ERROR' "$log" || true
        if [ "$status" != 0 ]; then
            echo "fuzz: $target failed ($status); see $log, inputs in fuzz/artifacts" >&2
            exit 1
        fi
    done
done

echo "fuzz: unguided loop, $loop executions, then as many with a concurrently writing thread"
CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
    cargo build --release -p virtqueue --example fuzz --target-dir target/fuzz
for flags in "" "--concurrent"; do
    "target/fuzz/$host/release/examples/fuzz" "$loop" $flags --seed "$(date +%s)" --corpus fuzz/corpus
done
