#!/bin/sh
# Reads a disassembled aarch64 binary with the queues in it: `take`, `complete`, `add` and `reclaim` must
# use load-acquire (ldar*) and store-release (stlr*) and no full barrier (dmb ish, dmb sy);
# the functions of notification suppression must have one. Prints what it found.
set -eu
binary=$1
objdump=${OBJDUMP:-aarch64-linux-gnu-objdump}
"$objdump" -d --no-show-raw-insn -C "$binary" | awk '
/^[0-9a-f]+ <.*>:$/ { name = $0; sub(/^[0-9a-f]+ </, "", name); sub(/>:$/, "", name); kind = ""
    if (name ~ /virtqueue::/ && name ~ /(Split|Packed)(Device|Driver)</) {
        platform = (name ~ /Platform/)
        layout = (name ~ /SplitD/) ? "split" : "packed"
        half = (name ~ /(Split|Packed)Device/) ? "device" : "driver"
        method = name; sub(/.*>::/, "", method); sub(/::h[0-9a-f]+$/, "", method); sub(/\[.*/, "", method)
        if (!platform && method ~ /^(take|complete|complete_run|complete_plain|complete_all|add|add_requests|reclaim|reclaim_entry|write_request|put_back)$/) kind = "hot"
        else if (!platform && method ~ /^(needs_call|needs_kick|enable_kicks|enable_calls)$/) kind = "notify"
        key = layout " " half " " ((kind == "hot") ? ((method ~ /^(take|reclaim|reclaim_entry)$/) ? "observes" : "publishes") : "notifies")
        if (kind != "") functions[key]++
    } else if (name ~ /virtqueue::packed::device::take_lines/) {
        kind = "hot"; key = "packed device observes"; functions[key]++
    }
    next }
kind == "" { next }
$2 ~ /^lda(r|pr)/ { acquire[key]++ }
$2 ~ /^stlr/ { release[key]++ }
$2 == "dmb" && ($3 == "ish" || $3 == "sy") { full[key]++; if (kind == "hot") { print "full barrier on the hot path: " name; bad = 1 } }
END {
    n = split("split device,split driver,packed device,packed driver", halves, ",")
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
