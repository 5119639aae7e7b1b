#!/bin/sh
# Prints the licences of all that is linked into the binary: every crate, its licence, and its licence files,
# each text once. Then the C library, which is linked statically.
set -eu
cd "$(dirname "$0")/.."
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT INT TERM

echo 'tautline is linked with these crates; their licence texts follow.'
echo
# Of all targets, so that the file is the same for each architecture.
${CARGO:-cargo} tree --locked --offline -p tautline -e normal --target all --prefix none --format '{p}|{l}' |
    sed -n 's/^\([^ ]*\) v\([^ |]*\)\( (proc-macro)\)\{0,1\}|\(.*\)$/\1 \2 \4/p' | LC_ALL=C sort -u >"$texts/crates"
while read -r name version licence; do
    set -- "$sources"/*/"$name-$version"
    # Crates for systems other than Linux are in no binary, and may be absent here.
    [ -d "$1" ] || continue
    echo "$name $version: $licence"
    for file in "$1"/LICEN[SC]E* "$1"/COPYING* "$1"/NOTICE*; do
        [ -f "$file" ] || continue
        sum=$(sha256sum "$file" | cut -c 1-64)
        [ -e "$texts/$sum.text" ] || cp "$file" "$texts/$sum.text"
        echo "$name $version" >>"$texts/$sum.of"
    done
done <"$texts/crates"
for text in "$texts"/*.text; do
    echo
    echo '------------------------------------------------------------------------'
    echo "Of $(LC_ALL=C sort -u "${text%.text}.of" | paste -s -d , | sed 's/,/, /g'):"
    echo
    cat "$text"
    echo
done
cat <<'TEXT'

------------------------------------------------------------------------
The binary is linked statically with the GNU C Library, under the GNU Lesser General Public License 2.1 or
later (https://www.gnu.org/licenses/lgpl-2.1.html). Tautline's sources and `make dist` relink it with another
version.
TEXT
