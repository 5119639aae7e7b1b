#!/bin/sh
# deb.sh TREE ARCHITECTURE VERSION OUT: a Debian package of TREE's usr/. Without dependencies: the binary is
# static. TREE gets DEBIAN/ and etc/ in addition, which are taken out again. Who makes a package for others names
# himself by DEBFULLNAME and DEBEMAIL, as for Debian's own tools.
set -eu
tree=$1 version=$3 out=$4
here=$(dirname "$0")
case $2 in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "deb: no Debian name for $2" >&2; exit 1 ;;
esac

mkdir "$tree/DEBIAN"
size=$(find "$tree/usr" -type f -exec stat -c %s {} + | awk '{ sum += $1 } END { print int((sum + 1023) / 1024) }')
cat >"$tree/DEBIAN/control" <<CONTROL
Package: tautline
Version: $version
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-Tautline maintainers}${DEBEMAIL:+ <$DEBEMAIL>}
Section: net
Priority: optional
Installed-Size: $size
Suggests: qemu-system, crun
Description: measures virtualization, and switches packets between guests
 tautline compare runs the same work on the host, in a container and in a
 VM, side by side. tautline switch is a vhost-user switch that needs no
 root, no huge pages and no DPDK. tautline rfc2544 measures the throughput
 and latency of any vhost-user switch. tautline doctor says what this
 machine can do.
CONTROL
install -D -m 644 "$here/switch.toml" "$tree/etc/tautline/switch.toml"
echo /etc/tautline/switch.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/debian/$script" "$tree/DEBIAN/$script"
done
(cd "$tree" && find usr etc -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
chmod 644 "$tree/DEBIAN/control" "$tree/DEBIAN/conffiles" "$tree/DEBIAN/md5sums"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
# One thread: with several, xz's blocks depend on the machine.
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$tree" "$out/tautline_${version}_$architecture.deb" >/dev/null
rm -rf "$tree/DEBIAN" "$tree/etc"
