#!/bin/sh
# deb-vswitchd.sh VERSION OUT: the Debian package that lets `tautline` stand in for Open vSwitch's ovs-vswitchd. For any
# architecture: a unit and its defaults. Needs SOURCE_DATE_EPOCH; equal input gives equal bytes.
set -eu
umask 022
version=$1 out=$2
here=$(dirname "$0")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT INT TERM
chmod 755 "$tree"

install -D -m 644 "$here/tautline-vswitchd.service" "$tree/usr/lib/systemd/system/tautline-vswitchd.service"
install -D -m 644 "$here/copyright" "$tree/usr/share/doc/tautline-vswitchd/copyright"
install -D -m 644 "$here/tautline-vswitchd.default" "$tree/etc/default/tautline-vswitchd"
mkdir "$tree/DEBIAN"
size=$(find "$tree/usr" -type f -exec stat -c %s {} + | awk '{ sum += $1 } END { print int((sum + 1023) / 1024) }')
cat >"$tree/DEBIAN/control" <<CONTROL
Package: tautline-vswitchd
Version: $version
Architecture: all
Maintainer: ${DEBFULLNAME:-Tautline maintainers}${DEBEMAIL:+ <$DEBEMAIL>}
Section: net
Priority: optional
Installed-Size: $size
Depends: tautline (= $version), openvswitch-switch
Description: tautline in the place of ovs-vswitchd
 A unit that starts tautline switch beside Open vSwitch's database. While it
 is enabled, it is what ovs-vswitchd.service means: ovs-vsctl, libvirt and
 OpenStack then add ports to Tautline's switch. It is not enabled by itself.
CONTROL
echo /etc/default/tautline-vswitchd >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/debian/vswitchd.$script" "$tree/DEBIAN/$script"
done
(cd "$tree" && find usr etc -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
chmod 644 "$tree/DEBIAN/control" "$tree/DEBIAN/conffiles" "$tree/DEBIAN/md5sums"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
# One thread: with several, xz's blocks depend on the machine.
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$tree" "$out/tautline-vswitchd_${version}_all.deb" >/dev/null
