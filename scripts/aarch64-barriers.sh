#!/bin/sh
# Reads a disassembled aarch64 binary with the queues in it, whose symbols name their types (v0 mangling). In each
# instance of each ring path of both halves and both layouts, what takes entries must use load-acquire (ldarh), what
# hands entries over store-release (stlrh: an index or flags have 16 bits), by itself or in a function that it calls, and
# neither has a full barrier (dmb ish, dmb sy). Records of chains in flight do not count. Notification suppression must
# have a full barrier. Prints the instances that it found.
set -eu
binary=$1
objdump=${OBJDUMP:-aarch64-linux-gnu-objdump}
"$objdump" -d --no-show-raw-insn -C "$binary" | awk '
function called(line) { sub(/^[^<]*</, "", line); sub(/>$/, "", line); sub(/\+0x[0-9a-f]+$/, "", line); return line }
# Whether the function, or one that it calls, has the instruction; `visited` ends circles.
function has(kind, name,    list, i, n) {
    if ((kind, name) in own) return 1
    if (visited[kind, name, turn]++) return 0
    n = split(calls[name], list, "\n")
    for (i = 1; i <= n; i++) if (list[i] != "" && has(kind, list[i])) return 1
    return 0
}
/^[0-9a-f]+ <.*>:$/ {
    name = $0; sub(/^[0-9a-f]+ </, "", name); sub(/>:$/, "", name)
    ours = name ~ /virtqueue::/ && name !~ /Platform|drop_in_place/
    if (!ours) next
    method = name; sub(/::<[^:]*$/, "", method); sub(/.*::/, "", method)
    half = (name ~ /(Split|Packed)Driver</) ? "driver" : (name ~ /virtqueue::device::|virtqueue::(split|packed)::device::/) ? "device" : ""
    layout = (name ~ /Split/) ? "split" : (name ~ /Packed/) ? "packed" : ""
    if (half == "" || layout == "") next
    key = layout " " half " " method
    if (key in wanted) instances[key] = instances[key] name "\n"
    next }
!ours { next }
$2 ~ /^ldap?rh$/ { own["ldar", name] = 1 }
$2 == "stlrh" { own["stlr", name] = 1 }
$2 == "dmb" && ($3 == "ish" || $3 == "sy") { own["dmb", name] = 1 }
$2 == "bl" || $2 == "b" { callee = called($0); if (callee ~ /virtqueue::/ && callee !~ /inflight/ && callee != name) calls[name] = calls[name] callee "\n" }
BEGIN {
    for (l = 1; l <= split("split packed", layouts, " "); l++) {
        split("device pop ldar,device add_used stlr,device add_used_logged stlr,device needs_call dmb,device enable_kicks dmb,driver reclaim ldar,driver add stlr,driver add_requests stlr,driver needs_kick dmb,driver enable_calls dmb", rules, ",")
        for (r in rules) { split(rules[r], words, " "); key = layouts[l] " " words[1] " " words[2]; wanted[key] = words[3] }
    }
}
END {
    for (key in wanted) {
        n = split(instances[key], list, "\n") - 1
        good = 0
        for (i = 1; i <= n; i++) {
            turn++
            if (has(wanted[key], list[i])) good++
            else { print "no " wanted[key] ": " list[i]; bad = 1 }
            turn++
            if (wanted[key] != "dmb" && has("dmb", list[i])) { print "full barrier on the hot path: " list[i]; bad = 1 }
        }
        if (n < 1) { print "not in the binary: " key; bad = 1 }
        printf "%-28s %d of %d instances have %s\n", key, good, n, wanted[key] | "sort"
    }
    close("sort")
    exit bad
}'
echo "aarch64: barriers are where they belong"
