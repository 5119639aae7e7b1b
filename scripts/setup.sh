#!/bin/sh
# Installs what is missing for `make compare` (default) or `make test` (argument: test).
# Idempotent, and quick when nothing is missing. Without root, or on a distribution without apt, it prints
# exactly what to install. It never touches the host's boot: the guest's kernel is unpacked into a cache folder.
set -eu

purpose=${1:-compare}
oldest_rust=91 # 1.91, as rust-version in Cargo.toml
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/kernel
ovs_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/openvswitch
mlrsearch=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/mlrsearch
machine=$(uname -m)
# Administrators' commands are not in every user's path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*"; }
has() { command -v "$1" >/dev/null 2>&1; }

case $machine in
x86_64) qemu=qemu-system-x86_64 qemu_package=qemu-system-x86 kernel_packages='linux-image-cloud-amd64 linux-image-virtual' ;;
aarch64) qemu=qemu-system-aarch64 qemu_package=qemu-system-arm kernel_packages='linux-image-cloud-arm64 linux-image-virtual' ;;
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

# --- what is missing ------------------------------------------------------------------------------------
packages=
need() { # need COMMAND PACKAGE
    has "$1" || packages="$packages $2"
}
need cc gcc
[ -e /usr/include/stdlib.h ] || packages="$packages libc6-dev"
need "$qemu" "$qemu_package"
need crun crun
need runc runc # crun does not run where cgroup v1 and v2 are mixed
if [ "$purpose" = test ]; then
    need cyclictest rt-tests
    need lxc-execute lxc
    need chromium chromium
    need valgrind valgrind
    dpdk=
    has dpdk-testpmd || dpdk=missing
    need setpriv util-linux
    need strace strace
    # Judges exported libvirt domains.
    need virt-xml-validate libvirt-clients
    need xmllint libxml2-utils
    need ip iproute2
    # What the peers' guest brings along.
    need busybox busybox-static
    need ping iputils-ping
    need iperf3 iperf3
    need ethtool ethtool
    [ -d "$ovs_cache" ] || ovs=missing
    mlr=
    has_mlrsearch || mlr=missing
    if [ -n "$mlr" ]; then
        if has_venv; then
            fetch_mlrsearch && mlr=
        else
            packages="$packages python3-venv"
        fi
    fi
fi
rust=
rust_is_recent || rust=missing
kernel=
ls "$cache"/vmlinuz-* >/dev/null 2>&1 || kernel=missing
# The newest image needs its modules: a guest with network ports loads virtio's.
if [ "$purpose" = test ] && [ -z "$kernel" ]; then
    newest=$(ls "$cache"/vmlinuz-* | sort | tail -n 1)
    newest=$cache/modules/${newest##*/vmlinuz-}
    # A cache made by an older set-up lacks those for VLANs.
    [ -d "$newest" ] && { [ ! -d "$newest/net" ] || [ -d "$newest/net/8021q" ]; } || kernel=missing
fi

if [ -z "$packages$rust$kernel${dpdk:-}${ovs:-}${mlr:-}" ]; then
    exit 0
fi

# --- how it can be installed ----------------------------------------------------------------------------
if ! has apt-get; then
    say "this distribution has no apt-get; please install, by its own names:"
    [ -z "$packages" ] || say "  $packages (Debian's names)"
    [ -z "${dpdk:-}" ] || say '  DPDK with testpmd and the poll mode drivers virtio and vhost'
    [ -z "${ovs:-}" ] || say "  Open vSwitch with DPDK, laid out as in Debian's packages, in $ovs_cache/"
    [ -z "${mlr:-}" ] || say '  Python 3 with venv; FD.io'"'"'s MLRsearch is then fetched from the Python package index'
    [ -z "$rust" ] || say "  Rust 1.$oldest_rust or later, with cargo"
    [ -z "$kernel" ] || say "  a kernel image: copy a vmlinuz-* of your distribution to $cache/"
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    if has sudo && sudo -n true 2>/dev/null; then as_root='sudo -n'; else as_root=none; fi
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
if [ -n "${dpdk:-}" ]; then
    refresh
    # The drivers' packages carry DPDK's ABI version in their names.
    drivers=$(apt-cache search --names-only '^librte-net-(virtio|vhost)[0-9]+$' | cut -d' ' -f1 | tr '\n' ' ')
    packages="$packages dpdk-dev $drivers"
fi
ovs_packages='openvswitch-common openvswitch-switch openvswitch-switch-dpdk'
if [ -n "${ovs:-}" ]; then
    refresh
    # The libraries alone: the packages themselves start a service, so they are unpacked below.
    for library in $(apt-cache depends --no-recommends --no-suggests $ovs_packages 2>/dev/null |
        sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p' | sort -u); do
        dpkg -s "$library:$(dpkg --print-architecture)" >/dev/null 2>&1 || packages="$packages $library"
    done
fi
if [ -n "$packages" ]; then
    if [ "$as_root" = none ]; then
        say 'not root, and sudo asks for a password; please run:'
        say "  sudo apt-get install --no-install-recommends$packages"
        missing=yes
    else
        refresh
        say "installing$packages"
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
    fi
fi

# --- FD.io's MLRsearch -----------------------------------------------------------------------------------
if [ -n "${mlr:-}" ] && ! { has_venv && fetch_mlrsearch; }; then
    say "MLRsearch could not be fetched from the Python package index; see that python3 -m venv works and that"
    say '  pip reaches the index, then call this again'
    missing=yes
fi

# --- Open vSwitch with DPDK: unpacked, never installed ----------------------------------------------------
if [ -n "${ovs:-}" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT INT TERM
    chmod 755 "$folder"
    say "fetching Open vSwitch with DPDK into $ovs_cache (it is not installed)"
    if (cd "$folder" && apt-get download -qq $ovs_packages 2>/dev/null &&
        for package in ./*.deb; do dpkg -x "$package" unpacked || exit 1; done); then
        rm -rf "$ovs_cache.new"
        mkdir -p "$ovs_cache.new"
        cp -R "$folder/unpacked/usr" "$ovs_cache.new"
        mv "$ovs_cache.new" "$ovs_cache"
    else
        say "it could not be fetched ($ovs_packages)"
        missing=yes
    fi
    rm -rf "$folder"
fi

# --- the guest's kernel: a stock one, unpacked, never installed -------------------------------------------
if [ -n "$kernel" ]; then
    refresh
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT INT TERM
    for meta in $kernel_packages; do
        image=$(apt-cache depends --no-recommends --no-suggests "$meta" 2>/dev/null |
            sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
        [ -n "$image" ] || continue
        say "fetching $image into $cache (it is not installed)"
        # apt drops its privileges where it can, so the folder must be open to it.
        chmod 755 "$folder"
        (cd "$folder" && apt-get download -qq "$image" 2>/dev/null && dpkg -x ./*.deb unpacked) || continue
        mkdir -p "$cache/modules"
        # Before the image, whose presence says that all is there. A kernel that has them built in has no files.
        for file in "$folder"/unpacked/boot/vmlinuz-*; do
            version=${file##*/vmlinuz-}
            rm -rf "$cache/modules/.new"
            mkdir "$cache/modules/.new"
            for part in drivers/char drivers/net drivers/virtio net/802 net/8021q net/core net/llc net/packet; do
                [ -d "$folder/unpacked/lib/modules/$version/kernel/$part" ] || continue
                mkdir -p "$cache/modules/.new/$part"
                cp -R "$folder/unpacked/lib/modules/$version/kernel/$part/." "$cache/modules/.new/$part"
            done
            rm -rf "$cache/modules/$version"
            mv "$cache/modules/.new" "$cache/modules/$version"
        done
        for file in "$folder"/unpacked/boot/vmlinuz-*; do
            # A whole file or none, should this be interrupted.
            cp "$file" "$cache/.new" && mv "$cache/.new" "$cache/$(basename "$file")"
        done
        kernel=
        break
    done
    if [ -n "$kernel" ]; then
        say "no stock kernel could be fetched ($kernel_packages); copy a vmlinuz-* to $cache/"
        missing=yes
    fi
fi
[ -z "${missing:-}" ]
