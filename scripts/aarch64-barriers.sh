#!/bin/sh
# Reads a disassembled aarch64 binary with the queues in it, whose symbols name their types (v0 mangling). In each
# instance of each ring path of both halves and both layouts, what takes entries must use load-acquire (ldarh), what
# hands entries over store-release (stlrh: an index or flags have 16 bits), by itself or in a function that it calls, and
# neither has a barrier of any kind (dmb, dsb). Records of chains in flight do not count. Notification suppression must
# have a full barrier (dmb ish, dmb sy). The one exception is the driver half for a device behind a bus
# (VIRTIO_F_ORDER_PLATFORM): there each path must have the barrier of the outer shareable domain beside it. For each
# path, prints how many of its instances have what they must.
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
    ours = name ~ /virtqueue::/ && name !~ /drop_in_place/
    if (!ours) next
    method = name; sub(/::<[^:]*$/, "", method); sub(/.*::/, "", method)
    half = (name ~ /(Split|Packed)Driver</) ? "driver" : (name ~ /virtqueue::device::|virtqueue::(split|packed)::device::/) ? "device" : ""
    layout = (name ~ /Split/) ? "split" : (name ~ /Packed/) ? "packed" : ""
    if (half == "" || layout == "") next
    group = layout " " half (name ~ /Platform/ ? " behind a bus" : "")
    if ((group, method) in wanted) instances[group, method] = instances[group, method] name "\n"
    next }
!ours { next }
$2 ~ /^ldap?rh$/ { own["ldar", name] = 1 }
$2 == "stlrh" { own["stlr", name] = 1 }
$2 == "dmb" || $2 == "dsb" { own["any", name] = 1; own["dmb " $3, name] = 1 }
$2 == "dmb" && ($3 == "ish" || $3 == "sy") { own["dmb", name] = 1 }
$2 == "bl" || $2 == "b" { callee = called($0); if (callee ~ /virtqueue::/ && callee !~ /inflight/ && callee != name) calls[name] = calls[name] callee "\n" }
BEGIN {
    rules["device"] = "pop ldar,add_used stlr,add_used_logged stlr,needs_call dmb,enable_kicks dmb"
    rules["driver"] = "reclaim ldar,add stlr,add_requests stlr,needs_kick dmb,enable_calls dmb"
    rules["driver behind a bus"] = "reclaim oshld,add oshst,add_requests oshst,needs_kick osh,enable_calls osh"
    split("split packed", layouts, " ")
    split("device,driver,driver behind a bus", halves, ",")
    for (l = 1; l <= 2; l++) for (h = 1; h <= 3; h++) {
        n = split(rules[halves[h]], list, ",")
        for (r = 1; r <= n; r++) {
            split(list[r], words, " ")
            group = layouts[l] " " halves[h]
            paths[group] = paths[group] words[1] "\n"
            wanted[group, words[1]] = words[2] ~ /^osh/ ? "dmb " words[2] : words[2]
        }
    }
}
END {
    for (l = 1; l <= 2; l++) for (h = 1; h <= 3; h++) {
        group = layouts[l] " " halves[h]
        line = ""
        many = split(paths[group], path, "\n") - 1
        for (p = 1; p <= many; p++) {
            kind = wanted[group, path[p]]
            n = split(instances[group, path[p]], list, "\n") - 1
            good = 0
            for (i = 1; i <= n; i++) {
                turn++
                if (has(kind, list[i])) good++
                else { print "no " kind ": " list[i]; bad = 1 }
                turn++
                if (kind !~ /dmb/ && has("any", list[i])) { print "barrier on the hot path: " list[i]; bad = 1 }
            }
            if (n < 1) { print "not in the binary: " group " " path[p]; bad = 1; n = 0 }
            line = line (p > 1 ? ", " : "") path[p] " " good "/" n " " kind
        }
        print group ": " line
    }
    exit bad
}'
echo "aarch64: barriers are where they belong"
