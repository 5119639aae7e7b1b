#!/bin/sh
# Builds `ovstest test-ovn`, a program of OVN's build tree with which its suite makes frames from expressions, from the
# unpacked sources of OVN and Open vSwitch: the program is SOURCES/ovstest. Of the parts of ovstest, only this one is built:
# others do not fit the version of Open vSwitch. ovstest.sh SOURCES, as root
set -eu
sources=$1
if ! command -v automake >/dev/null || ! command -v libtoolize >/dev/null; then
    apt-get install -y -qq --no-install-recommends automake libtool
fi
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -r "$sources/openvswitch" "$sources/ovn" "$build/"
configured() { # configured OPTION…: in the present folder
    autoreconf -f -i >/dev/null 2>&1
    ./configure --quiet --disable-ssl "$@" CFLAGS=-O1 >/dev/null
    printf 'built: $(BUILT_SOURCES)\n' | make -j2 -f Makefile -f - built >/dev/null
}
cd "$build/openvswitch"
configured --disable-libcapng --disable-afxdp
make -j2 lib/libopenvswitch.la ovsdb/libovsdb.la >/dev/null
cd "$build/ovn"
configured "--with-ovs-source=$build/openvswitch"
make -j2 lib/libovn.la tests/ovstest.o tests/test-ovn.o tests/test-utils.o >/dev/null
objects="tests/ovstest.o tests/test-ovn.o tests/test-utils.o"
libraries="lib/.libs/libovn.a ../openvswitch/ovsdb/.libs/libovsdb.a ../openvswitch/lib/.libs/libopenvswitch.a"
# shellcheck disable=SC2046,SC2086 # a list of options each
gcc -o "$sources/ovstest" $objects $libraries -lpthread $(sed -n 's/^LIBS = //p' ../openvswitch/Makefile)
