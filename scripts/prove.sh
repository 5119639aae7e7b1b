#!/bin/sh
# Shows on this machine that the comparison can be trusted. Statistics of a live machine, hence no test:
#   1. the host against itself: no more metrics differ than chance explains
#   2. a container whose CPU quota is halved: found as slower, with the right ratio
#   3. the wake-up work beside cyclictest, in alternation: to be looked at
# Of 1, at most one run in 200 fails by chance; of 2, at most another: crates/measure/tests/prove.rs.
# Usage: scripts/prove.sh TAUTLINE [FOLDER for the results]
set -eu
tautline=$1
folder=${2:-prove-results}
mkdir -p "$folder"
failed=
# tables NAME: all tables of the results file NAME.json, in place of the summary in NAME.txt.
tables() { "$tautline" report "$folder/$1.json" >"$folder/$1.txt"; }
check() { if eval "$2"; then echo "held: $1"; else echo "FAILED: $1"; failed=yes; fi; }

echo '--- 1. the host against itself'
# 12 starts: enough that labels can be exchanged in 2048 ways.
cat >"$folder/same.toml" <<'END'
[[limit]]
metric = "*"
environment = "host-2"
no_difference = 0.005
END
status=0
"$tautline" compare --quick --blocks 12 --environments host,host --gate "$folder/same.toml" \
    --output "$folder/same.json" >"$folder/same.txt" || status=$?
grep '^gate: ' "$folder/same.txt"
tables same
sed -n '/^ in short$/,/^ noise/p' "$folder/same.txt"
check 'no more differences than chance makes' '[ "$status" = 0 ]'

echo '--- 2. one CPU, and half of it'
"$tautline" compare --quick --blocks 12 --cpus 0 --only cpu --environments host,container:cpus=0.5 \
    --output "$folder/half.json" >"$folder/half.txt"
tables half
sed -n '/^ cpu$/,/^ noise/p' "$folder/half.txt"
# Code that keeps the whole core busy may lose more than the share it is not given: in a VM, a CPU that idles
# between periods may come back to a core whose SMT sibling is at work. So the middle counts.
middle=$(sed -n 's/.*×\([0-9.]*\) \[.*/\1/p' "$folder/half.txt" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }')
unfound=$(sed -n 's/.*container: no difference shown in \([0-9]*\) of.*/\1/p' "$folder/half.txt")
check "every metric found slower ($unfound were not)" '[ "$unfound" = 0 ]'
check "the middle of the ratios between 1.9 and 2.1 ($middle)" \
    'awk -v m="$middle" "BEGIN { exit !(m >= 1.9 && m <= 2.1) }"'

echo '--- 3. beside cyclictest'
"$tautline" compare --quick --wakeup-trial 2s --only wakeup.idle --cyclictest --environments host \
    --output "$folder/cyclictest.json" >"$folder/cyclictest.txt"
tables cyclictest
sed -n '/^ wakeup$/,/^ noise/p' "$folder/cyclictest.txt"
[ -z "$failed" ]
