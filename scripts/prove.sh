#!/bin/sh
# Shows on this machine that the comparison can be trusted. Statistics of a live machine, hence no test:
#   1. the host against itself: no difference in at least 19 of 20 metrics
#   2. a container whose CPU quota is halved: found as slower, with the right ratio
#   3. the wake-up work beside cyclictest, in alternation: medians within 15 % or 3 µs
# Usage: scripts/prove.sh TAUTLINE [FOLDER for the results]
set -eu
tautline=$1
folder=${2:-prove-results}
mkdir -p "$folder"
failed=
check() { if eval "$2"; then echo "held: $1"; else echo "MISSED: $1"; failed=yes; fi; }

echo '--- 1. the host against itself'
"$tautline" compare --quick --environments host,host --json "$folder/same.json" >"$folder/same.txt"
grep 'no difference shown in' "$folder/same.txt"
same=$(sed -n 's/.*host-2: no difference shown in \([0-9]*\) of \([0-9]*\).*/\1 \2/p' "$folder/same.txt")
check "no difference in at least 19 of 20 metrics ($same)" '[ $(( ${same% *} * 20 )) -ge $(( ${same#* } * 19 )) ]'

echo '--- 2. one CPU, and half of it'
cat >"$folder/half.toml" <<'G'
[[limit]]
metric = "cpu.*.one"
environment = "container"
max_slowdown = 2.3
G
# A trial spans many periods of the quota, so that it sees the average.
"$tautline" compare --quick --cpus 0 --trial-ms 200 --only cpu --environments host,container:cpus=0.5 \
    --json "$folder/half.json" --gate "$folder/half.toml" >"$folder/half.txt" && code=0 || code=$?
grep -A1 'one CPU' "$folder/half.txt" || true
grep 'slower' "$folder/half.txt" | tail -n 1
check 'no slowdown over 2.3' '[ $code = 0 ]'

echo '--- 3. beside cyclictest'
"$tautline" compare --quick --wakeup-ms 2000 --only wakeup.idle --cross-check --environments host \
    --json "$folder/cyclictest.json" >"$folder/cyclictest.txt"
cat "$folder/cyclictest.txt"
[ -z "$failed" ]
