#!/bin/sh
# Makes a root of Debian 13 with Neutron (OpenStack), and what it needs to run: MariaDB, RabbitMQ and uWSGI. The root
# has the tables of Neutron in a folder that MariaDB can start with. Used as root: neutron.sh FOLDER MIRROR KEYS.
# Programs run in the root by chroot; the system stays as it is.
set -eu

folder=$1 mirror=$2 keys=$3
root=$folder.new
packages=neutron-api,neutron-ovn-maintenance-worker,mariadb-server-core,mariadb-client-core,rabbitmq-server,uwsgi-core
packages=$packages,uwsgi-plugin-python3,neutron-ovn-metadata-agent,haproxy,iproute2,iptables,openvswitch-common

rm -rf "$root" "$folder"
mkdir -p "${folder%/*}"
mmdebstrap --quiet --variant=extract --format=directory --include='?essential' --include="$packages" \
    --aptopt='Acquire::Check-Valid-Until "false"' --keyring="$keys" trixie "$root" "$mirror"
# The packages are unpacked, not configured: no script of theirs has run.
for part in bin sbin lib lib64; do
    [ -e "$root/$part" ] || [ ! -e "$root/usr/$part" ] || ln -s "usr/$part" "$root/$part"
done
mkdir -p "$root/proc" "$root/run" "$root/mnt" "$root/root" "$root/etc/ssl/certs"
cat "$root"/usr/share/ca-certificates/*/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
for program in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    [ -e "$root/usr/sbin/$program" ] || ln -s xtables-nft-multi "$root/usr/sbin/$program"
done
# Programs have two names for the folder of network namespaces.
rm -rf "$root/var/run"
ln -s /run "$root/var/run"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
rm -rf "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale" "$root/var/cache/apt" "$root/var/lib/apt/lists"
cat >"$root/make-tables" <<'SCRIPT'
set -eu
data=/var/lib/neutron-tables socket=/tmp/mysql
mariadb-install-db --no-defaults --auth-root-authentication-method=normal --user=root --datadir=$data --skip-test-db \
    --innodb-log-file-size=16M >/tmp/log 2>&1
mariadbd --no-defaults --user=root --datadir=$data --socket=$socket --skip-networking --innodb-log-file-size=16M \
    --innodb-flush-log-at-trx-commit=0 >>/tmp/log 2>&1 &
until mariadb --socket=$socket -e 'create database neutron' 2>/dev/null; do
    kill -0 $!
    sleep 0.1
done
printf '[database]\nconnection = mysql+pymysql://root@localhost/neutron?unix_socket=%s\n[DEFAULT]\ncore_plugin = ml2\n' \
    $socket >/tmp/neutron.conf
neutron-db-manage --config-file /tmp/neutron.conf upgrade heads >>/tmp/log 2>&1
kill $!
wait
# A file that does not compile is compiled, or fails, when it is imported; then the test says so.
python3 -m compileall -q -j 2 /usr/lib/python3/dist-packages >/dev/null || true
SCRIPT
if ! unshare --mount --net --pid --fork --kill-child sh -c '
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/tmp" && cd / &&
    chroot "$0" env -i PATH=/usr/sbin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 sh /make-tables || { tail "$0/tmp/log"; exit 1; }' "$root"
then
    exit 1
fi
rm "$root/make-tables"
mv "$root" "$folder"
