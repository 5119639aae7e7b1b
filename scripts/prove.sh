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
# A trial spans many periods of the quota, so that it sees the average.
"$tautline" compare --quick --cpus 0 --trial-ms 200 --only cpu --environments host,container:cpus=0.5 \
    --json "$folder/half.json" >"$folder/half.txt"
sed -n '/^ cpu$/,/^ noise/p' "$folder/half.txt"
# Code that keeps the whole core busy may lose more than the share it is not given: a CPU that idles between
# periods is not always fast again at once, and in a VM may share its core meanwhile. So the middle counts.
middle=$(sed -n 's/.*×\([0-9.]*\) \[.*/\1/p' "$folder/half.txt" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }')
missed=$(sed -n 's/.*container: no difference shown in \([0-9]*\) of.*/\1/p' "$folder/half.txt")
check "every metric found slower ($missed were not)" '[ "$missed" = 0 ]'
check "the middle of the ratios between 1.9 and 2.1 ($middle)" \
    'awk -v m="$middle" "BEGIN { exit !(m >= 1.9 && m <= 2.1) }"'

echo '--- 3. beside cyclictest'
"$tautline" compare --quick --wakeup-ms 2000 --only wakeup.idle --cross-check --environments host \
    --json "$folder/cyclictest.json" >"$folder/cyclictest.txt"
sed -n '/^ wakeup$/,/^ noise/p' "$folder/cyclictest.txt"
[ -z "$failed" ]
