#!/bin/sh
# pack.sh BINARY ARCHITECTURE VERSION DOCUMENTS NOTICES OUT: the binary by itself, and as archive, Debian
# package and OCI image, in OUT. Needs SOURCE_DATE_EPOCH; equal input gives equal bytes.
set -eu
umask 022
binary=$1 architecture=$2 version=$3 documents=$4 notices=$5 out=$6
here=$(dirname "$0")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT INT TERM

# --- what all of them hold: usr/ as it is installed ------------------------------------------------------
usr=$stage/tree/usr
put() { install -D -m "$1" "$2" "$usr/$3"; }
put 755 "$binary" bin/tautline
for page in "$documents"/man/*.1; do
    put 644 "$page" "share/man/man1/${page##*/}"
done
gzip -9 -n "$usr"/share/man/man1/*.1
put 644 "$documents/completions/bash" share/bash-completion/completions/tautline
put 644 "$documents/completions/zsh" share/zsh/vendor-completions/_tautline
put 644 "$documents/completions/fish" share/fish/vendor_completions.d/tautline.fish
put 644 "$here/tautline-switch.service" lib/systemd/system/tautline-switch.service
put 644 "$here/sysusers.conf" lib/sysusers.d/tautline.conf
put 644 "$here/tap.conf" share/doc/tautline/examples/tap.conf
put 644 "$here/af-xdp.conf" share/doc/tautline/examples/af-xdp.conf
put 644 "$here/switch.toml" share/doc/tautline/examples/switch.toml
put 644 "$here/copyright" share/doc/tautline/copyright
put 644 "$here/../LICENSE-APACHE" share/doc/tautline/LICENSE-APACHE
put 644 "$here/../LICENSE-MIT" share/doc/tautline/LICENSE-MIT
put 644 "$notices" share/doc/tautline/THIRD-PARTY
gzip -9 -n "$usr/share/doc/tautline/THIRD-PARTY"
put 644 "$here/../CHANGELOG.md" share/doc/tautline/changelog
gzip -9 -n "$usr/share/doc/tautline/changelog"
find "$stage/tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

. "$here/reproducible.sh"
install -m 755 "$binary" "$out/tautline-$version-$architecture-linux"
archive "$usr" "tautline-$version-$architecture-linux" | gzip -9 -n >"$out/tautline-$version-$architecture-linux.tar.gz"
"$here/deb.sh" "$stage/tree" "$architecture" "$version" "$out"
"$here/oci.sh" "$stage/tree" "$architecture" "$version" "$out"
