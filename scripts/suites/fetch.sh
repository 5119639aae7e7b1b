#!/bin/sh
# Fetches what scripts/suites.sh runs into a folder, as root: the sources of OVN and Open vSwitch in Debian unstable with
# their suites, the programs of the same packages, and what the suites use: Scapy, with which they make frames, an FTP
# server, ncat and arping of iputils. Nothing is installed
# but autoconf, which generates the suites. fetch.sh FOLDER MIRROR KEYS
set -eu
folder=$1 mirror=$2 keys=$3
rm -rf "$folder.new" "$folder"
mkdir -p "$folder.new/lists/partial"
command -v autom4te >/dev/null || apt-get install -y -qq --no-install-recommends autoconf
command -v dpkg-source >/dev/null || apt-get install -y -qq --no-install-recommends dpkg-dev
printf 'Types: deb-src\nURIs: %s\nSuites: unstable\nComponents: main\nSigned-By: %s\n' "$mirror" "$keys" \
    >"$folder.new/deb.sources"
cd "$folder.new"
apt() {
    apt-get -qq -o "Dir::Etc::sourcelist=$folder.new/deb.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o "Dir::State::lists=$folder.new/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false "$@"
}
apt update
for package in ovn openvswitch; do
    apt source --download-only "$package"
    dpkg-source --no-check -x "$package"_*.dsc "$package"
done
mmdebstrap --quiet --variant=extract --format=directory \
    --include=ovn-central,ovn-host,ovn-ic,openvswitch-switch,openvswitch-common \
    --include=ncat,iputils-arping,python3-pyftpdlib \
    --aptopt='Acquire::Check-Valid-Until "false"' --keyring="$keys" unstable root "$mirror"
python3 -m venv python
python/bin/python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r /dev/stdin <<'HASHES'
scapy==2.8.0 --hash=sha256:abf855145ee829a42b2eb28983cd6a0a52b12a31d3f861cb7be36791195ed9aa
HASHES
ln -s "$folder/root/usr/lib/python3/dist-packages/pyftpdlib" python/lib/python3*/site-packages/
rm -rf lists ./*.tar.* ./*.dsc deb.sources
# A virtual environment names its own folder.
sed -i "s,$folder.new,$folder,g" python/pyvenv.cfg python/bin/*
mv "$folder.new" "$folder"
