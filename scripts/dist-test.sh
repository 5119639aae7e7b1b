#!/bin/sh
# Installs and starts what `make dist` made: checksums, equal bytes for equal input, each program, the Debian
# packages in a clean root, the images by an OCI runtime, the unit by systemd's own check. Needs root, and what
# `scripts/setup.sh test` installs. Leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."
dist=$(realpath "${DIST:-dist}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
base=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/debian-root.tar
native=$(uname -m)
# Programs of the other architecture run under user-mode emulation.
case $native in
x86_64) foreign=aarch64 ;;
*) foreign=x86_64 ;;
esac
emulator=$(command -v "qemu-$foreign-static")
here=$(mktemp -d)
began=$(date +%s)
container=
finish() {
    status=$?
    [ -z "$container" ] || "$runtime" delete --force "$container" >/dev/null 2>&1 || true
    umount "$here/root/proc" 2>/dev/null || true
    rm -rf "$here"
    [ "$status" = 0 ] || echo 'dist: FAILED' >&2
}
trap finish EXIT
trap 'exit 130' INT TERM
held() { printf 'dist: held: %s (%s s)\n' "$*" "$(($(date +%s) - began))"; }
fail() { printf 'dist: FAILED: %s\n' "$*" >&2; exit 1; }
says() { # says WORDS COMMAND…: the command ends well and prints them
    words=$1; shift
    "$@" >"$here/printed" 2>&1 || { cat "$here/printed" >&2; fail "'$*' ended with $?"; }
    grep -qF -- "$words" "$here/printed" || { cat "$here/printed" >&2; fail "'$*' does not say '$words'"; }
}
debian() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; esac }

# --- checksums, and equal bytes ---------------------------------------------------------------------------
(cd "$dist" && sha256sum --quiet --strict -c SHA256SUMS) || fail 'a checksum'
listed=$(sed 's/^[0-9a-f]*  //' "$dist/SHA256SUMS" | LC_ALL=C sort)
[ "$listed" = "$(cd "$dist" && ls | grep -vx SHA256SUMS | LC_ALL=C sort)" ] || fail 'SHA256SUMS lists other files'
[ "$(echo "$listed" | wc -l)" = 9 ] || fail "not nine files but: $listed"
held 'nine files, each with its checksum'

mkdir "$here/again"
for architecture in x86_64 aarch64; do
    (umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=$(cat target/dist/epoch) packaging/pack.sh \
        "target/dist/tautline-$architecture" "$architecture" "$version" target/dist/documents \
        target/dist/THIRD-PARTY "$here/again")
done
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=$(cat target/dist/epoch) packaging/deb-vswitchd.sh \
    "$version" "$here/again")
for file in $listed; do
    cmp "$dist/$file" "$here/again/$file" || fail "$file differs when it is packed again"
done
rm -rf "$here/again"
held 'packed again, at another time, in another time zone and with another umask: the same bytes'

# --- the programs ------------------------------------------------------------------------------------------
for architecture in x86_64 aarch64; do
    program=$dist/tautline-$version-$architecture-linux
    ! LC_ALL=C readelf -lW "$program" | grep -q INTERP || fail "$program is not static"
    run=
    [ "$architecture" = "$native" ] || run=$emulator
    says "tautline $version" $run "$program" --version
    tar -C "$here" -xf "$program.tar.gz"
    cmp "$program" "$here/tautline-$version-$architecture-linux/bin/tautline"
    [ -s "$here/tautline-$version-$architecture-linux/share/man/man1/tautline-switch.1.gz" ] || fail 'no man page'
    rm -rf "${here:?}/tautline-$version-$architecture-linux"
done
says '/dev/kvm' "$dist/tautline-$version-$native-linux" doctor
held "static programs; $foreign under emulation"

# A switch of the foreign architecture, a generator of this one: all of virtio and vhost-user between them.
"$emulator" "$dist/tautline-$version-$foreign-linux" switch \
    --port a=vhost-user:"$here/a" --port b=vhost-user:"$here/b" >"$here/switch" 2>&1 &
switch=$!
# Its rates say nothing, so it is ended once frames have passed: an answer is not waited for.
timeout --signal INT 10 "$dist/tautline-$version-$native-linux" rfc2544 --from virtio-user:"$here/a" \
    --to virtio-user:"$here/b" --sizes 64 --quick --search maximum >"$here/rates" 2>&1 || true
kill "$switch"
wait "$switch" || { cat "$here/switch" >&2; fail 'the emulated switch ended badly'; }
frames=$(sed -n 's/^ *to guest  *0 *\([0-9]*\) frames.*/\1/p' "$here/switch" | sort -n | tail -n 1)
[ "${frames:-0}" -gt 1000 ] || { cat "$here/switch" "$here/rates" >&2; fail "only ${frames:-no} frames"; }
held "a switch of $foreign under emulation passed $frames frames"

# The arm64 program in a machine with KVM, whose kernel runs at EL2 and at EL1.
if [ "$foreign" = aarch64 ]; then
    TAUTLINE_ARM64=$dist/tautline-$version-aarch64-linux "${CARGO:-cargo}" test --locked -p tautline-peers --test arm -- \
        the_program --ignored --nocapture || fail 'the arm64 machine'
    held 'arm64: compare, host audit and a switch in a machine with KVM, with VHE and without'
fi

# --- the Debian packages, in a clean root --------------------------------------------------------------------
root=$here/root
mkdir "$root"
tar -C "$root" -xf "$base"
within() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# All but dpkg's own records of what happened.
files() { (cd "$root" && find . -path ./proc -prune -o ! -path './var/lib/dpkg/*' ! -path './var/log/*' -printf '%p %y %m %s\n' | LC_ALL=C sort); }
mount -t proc proc "$root/proc"
within dpkg --add-architecture "$(debian "$foreign")"
files | grep -v ' d ' >"$here/before"
for architecture in $native $foreign; do
    package=tautline_${version}_$(debian "$architecture").deb
    cp "$dist/$package" "$root/tmp"
    says 'Setting up tautline' within dpkg --install "/tmp/$package"
    rm "$root/tmp/$package"
    run=
    if [ "$architecture" != "$native" ]; then
        cp "$emulator" "$root/tmp/emulator"
        run=/tmp/emulator
    fi
    says "tautline $version" within $run /usr/bin/tautline --version
    [ -n "$run" ] || says '/dev/kvm' within /usr/bin/tautline doctor
    rm -f "$root/tmp/emulator"
    within dpkg --verify tautline || fail "$package: not as it was packed"
    for file in usr/share/man/man1/tautline.1.gz usr/share/bash-completion/completions/tautline \
        usr/lib/systemd/system/tautline-switch.service usr/lib/sysusers.d/tautline.conf usr/share/doc/tautline/copyright etc/tautline/switch.toml; do
        [ -s "$root/$file" ] || fail "$package has no $file"
    done
    if [ "$architecture" = "$native" ]; then
        # With the program that it names, which stands in the clean root; the other units are this machine's.
        unit=$here/tautline-switch.service
        program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$root/usr/lib/systemd/system/tautline-switch.service")
        [ -x "$root$program" ] || fail "the unit starts '$program', which is not there"
        sed "s,^ExecStart=[^ ]*,ExecStart=$root$program," "$root/usr/lib/systemd/system/tautline-switch.service" >"$unit"
        # The user that it runs as is made by systemd's own tool; nobody may be made for a folder that is root's alone.
        user=$(sed -n 's/^User=//p' "$unit")
        mkdir -p "$here/users/etc"
        systemd-sysusers --root="$here/users" - <"$root/usr/lib/sysusers.d/tautline.conf" >"$here/printed" 2>&1 ||
            { cat "$here/printed" >&2; fail 'systemd-sysusers'; }
        grep -q "^$user:" "$here/users/etc/passwd" || fail "sysusers.d makes no user '$user'"
        ! grep -q '^DynamicUser=' "$unit" || fail 'behind DynamicUser= no front-end reaches /run/tautline'
        analyze() {
            systemd-analyze verify --man=no --recursive-errors=no "$unit" >"$here/printed" 2>&1 ||
                { cat "$here/printed" >&2; fail "systemd-analyze verify$1"; }
            ! [ -s "$here/printed" ] || { cat "$here/printed" >&2; fail "systemd-analyze verify$1 complains"; }
        }
        analyze ''
        mkdir "$unit.d"
        cp "$root/usr/share/doc/tautline/examples/"*.conf "$unit.d"
        [ -s "$unit.d/tap.conf" ] && [ -s "$unit.d/af-xdp.conf" ] || fail "$package lacks an example for its unit"
        analyze ' with the examples for ports'
        rm -r "$unit.d"
        # 0 is wholly confined, 100 not at all.
        says 'tautline-switch' systemd-analyze security --no-pager --offline=true --threshold=15 "$unit"
        held 'the unit: systemd-analyze verify, and security at most 1.5'
    fi
    within dpkg --purge tautline >/dev/null
    files | grep -v ' d ' >"$here/after"
    diff "$here/before" "$here/after" || fail "$package leaves files behind"
    held "$package: installed in a clean root, started, removed without a trace"
done
# --- the package that stands in for ovs-vswitchd ---------------------------------------------------------------
cp "$dist/tautline-vswitchd_${version}_all.deb" "$root/tmp/vswitchd.deb"
# What it depends on is not in the root: its files and scripts are looked at.
within dpkg --force-depends --install /tmp/vswitchd.deb >"$here/printed" 2>&1 || { cat "$here/printed" >&2; fail 'tautline-vswitchd'; }
rm "$root/tmp/vswitchd.deb"
within dpkg --verify tautline-vswitchd || fail 'tautline-vswitchd: not as it was packed'
name=tautline-vswitchd.service
for unit in ovs-vswitchd ovsdb-server openvswitch-switch; do # Open vSwitch's, which are not in the root
    printf '[Service]\nExecStart=/bin/true\n' >"$root/usr/lib/systemd/system/$unit.service"
done
says 'ovs-vswitchd.service' systemctl --root="$root" enable $name
# systemctl writes /lib where /lib is a link to /usr/lib.
meant=$(readlink "$root/etc/systemd/system/ovs-vswitchd.service")
[ "/usr${meant#/usr}" = "/usr/lib/systemd/system/$name" ] || fail "ovs-vswitchd.service is '$meant', not $name"
says 'ovs-vswitchd.service' systemctl --root="$root" disable $name
[ ! -e "$root/etc/systemd/system/ovs-vswitchd.service" ] || fail "$name stays after it is disabled"
rm "$root"/usr/lib/systemd/system/ovs-vswitchd.service "$root"/usr/lib/systemd/system/ovsdb-server.service \
    "$root"/usr/lib/systemd/system/openvswitch-switch.service
sed "s,^ExecStart=[^ ]*,ExecStart=/bin/true," "$root/usr/lib/systemd/system/$name" >"$here/$name"
systemd-analyze verify --man=no --recursive-errors=no "$here/$name" >"$here/printed" 2>&1 || { cat "$here/printed" >&2; fail "systemd-analyze verify $name"; }
says 'tautline-vswitchd' systemd-analyze security --no-pager --offline=true --threshold=45 "$here/$name"
within dpkg --purge tautline-vswitchd >/dev/null
find "$root" -path "$root/proc" -prune -o -type l -lname '*tautline*' -print | grep . && fail 'tautline-vswitchd leaves links behind'
files | grep -v ' d ' >"$here/after"
diff "$here/before" "$here/after" || fail 'tautline-vswitchd leaves files behind'
held 'tautline-vswitchd: installed, enabled in the place of ovs-vswitchd.service, removed without a trace'
umount "$root/proc"

# --- the images, by an OCI runtime ------------------------------------------------------------------------------
for architecture in $native $foreign; do
    image=$here/image-$architecture bundle=$here/bundle-$architecture
    mkdir "$image"
    tar -C "$image" -xf "$dist/tautline-$version-$(debian "$architecture").oci.tar"
    # umoci checks every digest on its way.
    umoci unpack --image "$image:$version" "$bundle" >"$here/printed" 2>&1 || { cat "$here/printed" >&2; fail 'umoci'; }
    cmp "$bundle/rootfs/usr/bin/tautline" "$dist/tautline-$version-$architecture-linux"
    if [ "$architecture" != "$native" ]; then
        cp "$emulator" "$bundle/rootfs/tmp/emulator"
        sed -i 's|^[[:space:]]*"/usr/bin/tautline",$|"/tmp/emulator", &|' "$bundle/config.json"
        grep -q /tmp/emulator "$bundle/config.json" || fail 'no entrypoint in config.json'
    fi
    # No terminal here, and its own network and cgroup are the runtime's affair, not the image's.
    sed -i 's/"terminal": *true/"terminal": false/' "$bundle/config.json"
    for words in --version doctor; do
        [ "$architecture" = "$native" ] || [ "$words" = --version ] || continue
        sed "s/\"--help\"/\"$words\"/" "$bundle/config.json" >"$bundle/config.new"
        cp "$bundle/config.json" "$bundle/config.old"
        mv "$bundle/config.new" "$bundle/config.json"
        started=
        for runtime in crun runc; do # crun does not run where cgroup v1 and v2 are mixed
            container=tautline-dist-$$
            if "$runtime" run --bundle "$bundle" "$container" >"$here/printed" 2>&1 </dev/null; then
                started=$runtime container=
                break
            fi
            cat "$here/printed" >>"$here/refused"
            "$runtime" delete --force "$container" >/dev/null 2>&1 || true
            container=
        done
        [ -n "$started" ] || { cat "$here/refused" >&2; fail 'no OCI runtime starts the image'; }
        mv "$bundle/config.old" "$bundle/config.json"
        case $words in
        --version) grep -qx "tautline $version" "$here/printed" ;;
        *) grep -q /dev/kvm "$here/printed" ;;
        esac || { cat "$here/printed" >&2; fail "tautline $words in a container"; }
        held "image of $architecture: tautline $words by $started"
    done
done
