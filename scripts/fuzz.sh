#!/bin/sh
# Fuzzes for SECONDS_EACH (default 60) each: the targets of crates/fuzz-targets, or those named as arguments, guided by
# coverage; the rings also with a concurrently writing thread, and then by the fast unguided loop.
#
# What libFuzzer finds new goes to fuzz/found (not kept); failures go to fuzz/artifacts. fuzz/corpus holds for the
# rings 100 scripts each: those that libFuzzer's -set_cover_merge=1 -use_counters=0 -use_cmp=0 keeps, which reach every
# edge that a larger corpus reached, and the longest of those that -set_cover_merge=1 keeps besides. For the others it
# holds a few KiB each; MERGE=1 replaces it by what such a merge keeps of the corpus and fuzz/found.
#
# Any Rust of `rust-version` or newer will do, stable too: coverage comes from LLVM's pass by plain compiler flags.
# libFuzzer itself is built from source by the crate libfuzzer-sys, which takes a C++ compiler.
set -eu
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-60}
loop=${EXECUTIONS:-20000000}
root=$(pwd)
mkdir -p fuzz/artifacts fuzz/found
host=$(rustc -vV | sed -n 's/^host: //p')
command -v "${CXX:-c++}" >/dev/null || {
    echo "fuzz: no C++ compiler (${CXX:-c++}), which libFuzzer is built with: install g++ or clang" >&2
    exit 1
}
echo "fuzz: built by $(rustc -V) and $("${CXX:-c++}" --version | head -n 1)"

# The coverage counters of libFuzzer without cargo-fuzz: plain compiler flags. No static linking here.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1"
(cd fuzz && cargo build --release --target "$host" --target-dir "$root/target/libfuzzer")
unset RUSTFLAGS
program=target/libfuzzer/$host/release/fuzz

guided() {
    target=$1 concurrent=$2
    mkdir -p "fuzz/found/$target"
    echo "fuzz: $target${concurrent:+, concurrent} for $seconds s"
    log=fuzz/found/$target.log
    status=0
    env FUZZ_TARGET="$target" ${concurrent:+FUZZ_CONCURRENT=1} "$program" \
        -max_total_time="$seconds" -max_len=4096 -timeout=20 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix=fuzz/artifacts/ "fuzz/found/$target" "fuzz/corpus/$target" >"$log" 2>&1 || status=$?
    # A log without these words is no failure; the fuzzer's own status is judged below.
    grep -E 'stat::number_of_executed_units|panicked|ERROR' "$log" || true
    if [ "$status" != 0 ]; then
        echo "fuzz: $target failed ($status); see $log, inputs in fuzz/artifacts" >&2
        failed="$failed $target"
    fi
}

merge() {
    target=$1
    kept=fuzz/found/$target.kept
    rm -rf "$kept"
    mkdir "$kept"
    FUZZ_TARGET=$target "$program" -merge=1 -use_counters=0 -use_cmp=0 -max_len=512 "$kept" \
        "fuzz/found/$target" "fuzz/corpus/$target" >"fuzz/found/$target.merge.log" 2>&1
    rm -rf "fuzz/corpus/$target"
    mv "$kept" "fuzz/corpus/$target"
    echo "fuzz: $target: $(ls "fuzz/corpus/$target" | wc -l) inputs kept"
}

failed=
end() { # end: after all targets, whatever became of those before
    [ -z "$failed" ] || { echo "fuzz: failed:$failed" >&2; exit 1; }
}
targets=$*
[ -n "$targets" ] || targets=$(ls fuzz/corpus)
for target in $targets; do
    guided "$target" ""
    case $target in
    hostile_driver | hostile_device) guided "$target" 1 ;;
    *) [ -z "${MERGE:-}" ] || merge "$target" ;;
    esac
done
[ $# = 0 ] || { end; exit 0; }

echo "fuzz: unguided loop, $loop executions, then as many with a concurrently writing thread"
CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
    cargo build --release -p tautline-virtqueue --example fuzz --target-dir target/fuzz
for flags in "" "--concurrent"; do
    "target/fuzz/$host/release/examples/fuzz" "$loop" $flags --seed "$(date +%s)" --corpus fuzz/corpus
done
end
