#!/bin/sh
# What takes longer than each change can wait for, one step after the other: test-long.sh [STEP…], all without a name.
# Called by `make test-long`, after set-up. Each step runs, whatever became of those before. Once every step has run at
# one commit, in one call or in several that name some steps, the record is written to
# bench-results/long/DATE-COMMIT.json, which is committed: schema tautline-long/1, described in docs/results-schema.md.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/tautline/tools/bin
# Steps write results that are committed with the record.
results=':!bench-results :!docs/support-matrix.md :!docs/suites.md :!docs/results'
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
    { "$@" 2>&1 && echo 0 >"$folder/status" || echo $? >"$folder/status"; } | tee "$folder/$name.log"
    status=$(cat "$folder/status")
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
step recovery make recovery
step guest-kills make guest-kills
step soak make soak SECONDS=600
step torture make torture-long COUNT=1000000
step flows make test-flows
step worst make test-worst
step tti make test-tti
step nested make test-nested-long
step tti-cyclictest make check-tti
step net make check-net
step prove make prove
step paths make bench-paths
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
