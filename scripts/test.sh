#!/bin/sh
# What each change must pass, in layers: what is fast first. Called by `make test`, which has set up what the layers
# need. The end names the time of each layer, the slowest tests, what could not run here, and the repetitions of tests
# whose emulated machine failed (crates/peers/src/standstill.rs).
set -eu
tools=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/tools/bin
export PATH="$PATH:$tools" # behind: a virtual environment, whose Python is not for the tests
mkdir -p target
export TAUTLINE_STANDSTILLS="$PWD/target/standstills" TAUTLINE_NOT_RUN="$PWD/target/not-run"
rm -f "$TAUTLINE_STANDSTILLS" "$TAUTLINE_NOT_RUN" target/nextest/default/junit.xml
began=$(date +%s)
times=

layer() { # layer NAME COMMAND…
    current=$1 since=$(date +%s)
    shift
    printf '\n=== %s\n' "$current"
    "$@"
    times="$times$(printf '%5d s  %s' $(($(date +%s) - since)) "$current")
"
    current=
}
end() {
    status=$?
    [ -z "${current:-}" ] || times="$times$(printf '%5d s  %s: FAILED' $(($(date +%s) - since)) "$current")
"
    printf '\n=== times\n%s%5d s  together\n' "$times" $(($(date +%s) - began))
    scripts/slowest-tests.sh target/nextest/default/junit.xml
    for file in "$TAUTLINE_NOT_RUN" "$TAUTLINE_STANDSTILLS"; do
        [ ! -s "$file" ] || sort -u "$file"
    done
    printf '%s tests ran once more because their emulated machine failed\n' \
        "$(cat "$TAUTLINE_STANDSTILLS" 2>/dev/null | wc -l)"
    exit "$status"
}
trap end EXIT

layer 'format' cargo fmt --check
layer 'dependencies: licences, sources, unused, advisories' scripts/dependencies.sh
layer 'lints, builds' make -j2 --output-sync=target checks
# bench-peers' tests need the program, which is another crate's: by the build that has just been made.
export TAUTLINE_PROGRAM="$PWD/target/$(rustc -vV | sed -n 's/^host: //p')/debug/tautline"
# To the end: one run names all that fail.
layer 'tests' cargo nextest run --locked --workspace
layer 'examples in the documentation of the crates' cargo test --locked --workspace --doc --quiet
layer 'instruction limits' make instruction-limits
