#!/bin/sh
# Makes what a release consists of, in dist/: for each architecture the static binary, an archive, a Debian
# package and an OCI image; the package that stands in for ovs-vswitchd; and their SHA-256 sums. Called by `make dist`. With `build`, the binaries alone.
# The same binary gives the same bytes: times are those of the last commit, or SOURCE_DATE_EPOCH.
set -eu
cd "$(dirname "$0")/.."
umask 022
architectures=${ARCHITECTURES:-x86_64 aarch64}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
out=${DIST:-dist}
work=target/dist

say() { printf 'dist: %s\n' "$*"; }

rm -rf "$work" "$out"
mkdir -p "$work" "$out"
echo "$SOURCE_DATE_EPOCH" >"$work/epoch" # the test packs again
for architecture in $architectures; do
    say "building for $architecture"
    (
        ARCH=$architecture
        . scripts/cross.sh
        "$cargo" build --release --locked --target "$target" -p tautline
        cp "$built/tautline" "$work/tautline-$architecture"
    )
done

[ "${1:-}" != build ] || exit 0

say 'completions, man pages, third-party notices'
packaging/documents.sh "$work/tautline-$(uname -m)" "$work/documents"
packaging/notices.sh >"$work/THIRD-PARTY"

for architecture in $architectures; do
    say "packing for $architecture"
    packaging/pack.sh "$work/tautline-$architecture" "$architecture" "$version" "$work/documents" \
        "$work/THIRD-PARTY" "$out"
done
packaging/deb-vswitchd.sh "$version" "$out"
(cd "$out" && LC_ALL=C sha256sum -- * >../"$work/SHA256SUMS" && mv ../"$work/SHA256SUMS" .)
ls -l "$out"
