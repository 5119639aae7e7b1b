#!/bin/sh
# Reads a disassembled aarch64 binary with the queues in it: `pop`, `add_used`, `add` and `reclaim` must
# use load-acquire (ldar*) and store-release (stlr*) and no full barrier (dmb ish, dmb sy);
# the functions of notification suppression must have one. Prints what it found. The device half is one shell for
# both layouts, and its symbols do not tell them apart.
set -eu
binary=$1
objdump=${OBJDUMP:-aarch64-linux-gnu-objdump}
"$objdump" -d --no-show-raw-insn -C "$binary" | awk '
/^[0-9a-f]+ <.*>:$/ { name = $0; sub(/^[0-9a-f]+ </, "", name); sub(/>:$/, "", name); kind = ""
    method = name; sub(/::h[0-9a-f]+$/, "", method); sub(/.*::/, "", method); sub(/\[.*/, "", method)
    if (name ~ /virtqueue::/ && name ~ /(Split|Packed)Driver</ && name !~ /Platform/) {
        half = ((name ~ /SplitD/) ? "split" : "packed") " driver"
        if (method ~ /^(reclaim|reclaim_entry)$/) kind = "observes"
        else if (method ~ /^(add|add_requests|write_request)$/) kind = "publishes"
        else if (method ~ /^(needs_kick|enable_calls)$/) kind = "notifies"
    } else if (name ~ /virtqueue::(device::|split::device::|packed::device::)/ && name !~ /drop_in_place/) {
        half = "device"
        if (method ~ /^pop(_|$)/) kind = "observes"
        else if (method ~ /^(add_used(_|$)|rewind|record_popped)/) kind = "publishes"
        else if (method ~ /^(needs_call|enable_kicks)$/) kind = "notifies"
    }
    if (kind != "") { key = half " " kind; functions[key]++ }
    next }
kind == "" { next }
$2 ~ /^lda(r|pr)/ { acquire[key]++ }
$2 ~ /^stlr/ { release[key]++ }
$2 == "dmb" && ($3 == "ish" || $3 == "sy") { full[key]++; if (kind != "notifies") { print "full barrier on the hot path: " name; bad = 1 } }
END {
    n = split("device,split driver,packed driver", halves, ",")
    for (i = 1; i <= n; i++) {
        o = halves[i] " observes"; p = halves[i] " publishes"; w = halves[i] " notifies"
        printf "%-14s observe: %d functions, %d ldar; publish: %d functions, %d stlr; notify: %d functions, %d dmb ish\n",
            halves[i], functions[o], acquire[o], functions[p], release[p], functions[w], full[w]
        if (!acquire[o]) { print halves[i] ": no load-acquire"; bad = 1 }
        if (!release[p]) { print halves[i] ": no store-release"; bad = 1 }
        if (!full[w]) { print halves[i] ": no full barrier in notification suppression"; bad = 1 }
    }
    exit bad
}'
echo "aarch64: barriers are where they belong"
