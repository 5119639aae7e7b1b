#!/bin/sh
# What takes longer than each change can wait for, one step after the other: test-long.sh [STEP…], all without a name.
# Called by `make test-long`, after set-up. Each step runs, whatever became of those before. The record of the steps that
# ran at a commit, in one call or in several that name some steps, is bench-results/long/DATE-COMMIT.json, which is
# committed: schema tautline-long/1, described in docs/results-schema.md. scripts/long-record.py check names
# the steps whose last record failed or is old, so that the steps may be run on different days.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/tautline/tools/bin
# Steps write results that are committed with the record, pages among them.
results=':!bench-results :!docs/support-matrix.md :!docs/suites.md :!docs/results'
results="$results $(scripts/page-runs.py pages | sed 's/^/:!/')"
if [ -n "$(git status --porcelain --untracked-files=no -- . $results)" ]; then
    echo 'test-long: the record names a commit, and the work tree differs from it; commit or stash first' >&2
    exit 1
fi
commit=$(git rev-parse HEAD)
wanted=" $* "
folder=target/test-long/$commit
[ $# != 0 ] || rm -rf "$folder"
mkdir -p "$folder"
failed= all= known=

step() { # step NAME COMMAND…
    name=$1
    shift
    all="$all $name"
    case $wanted in
    '  ') ;;
    *" $name "*) known="$known $name" ;;
    *) return 0 ;;
    esac
    printf '\n=== %s: %s\n' "$name" "$*"
    since=$(date +%s)
    # The step's own status: tee's would hide it.
    { "$@" 2>&1 && echo 0 >"$folder/$name.status" || echo $? >"$folder/$name.status"; } | tee "$folder/$name.log"
    status=$(cat "$folder/$name.status")
    seconds=$(($(date +%s) - since))
    printf '=== %s: exit status %s after %s s\n' "$name" "$status" "$seconds"
    [ "$status" = 0 ] || failed="$failed $name"
    scripts/long-record.py step "$folder" "$name" "$*" "$status" "$seconds"
}

step oldest-rust scripts/oldest-rust.sh
step foreign make test-foreign
step dist make test-dist
step compare make compare ARGS='--only os.syscall --blocks 1 --environments host'
step fuzz env SECONDS_EACH=120 make fuzz
step host-kills make host-kills
step recovery make page-runs RUNS=upgrade
step guest-kills make guest-kills
step crypto-kills make crypto-kills
step report-shapes make report-shapes
step soak make soak SECONDS=600
step torture make torture-long COUNT=1000000
step flows make test-flows
step controllers make test-controllers
step lines make lines
step worst make test-worst
step tti make test-tti
step nested make test-nested-long
step tti-cyclictest make page-runs RUNS=tti
step net make check-net
step prove make prove
step paths make bench-paths
step pages make page-runs RUNS="packet-cost scenarios torture vhe"
step setup make test-setup
step matrix make test-matrix
step scale-ovn make scale-ovn
step suites make suites

for name in "$@"; do
    case "$known " in
    *" $name "*) ;;
    *) echo "test-long: there is no step $name; the steps are$all" >&2; exit 2 ;;
    esac
done
scripts/long-record.py write "$folder" "$commit" $all
[ -z "$failed" ] || { echo "test-long: failed:$failed" >&2; exit 1; }
