#!/bin/sh
# oci.sh TREE ARCHITECTURE VERSION OUT: an OCI image archive (image-spec 1.0) with the binary as entrypoint, and
# nothing else but its licences. No daemon and no registry: an image is some JSON and a tar.
set -eu
tree=$1 version=$3 out=$4
here=$(dirname "$0")
case $2 in
x86_64) architecture=amd64 variant= ;;
aarch64) architecture=arm64 variant=', "variant": "v8"' ;;
*) echo "oci: no OCI name for $2" >&2; exit 1 ;;
esac
. "$here/reproducible.sh"
image=$(mktemp -d)
root=$(mktemp -d)
trap 'rm -rf "$image" "$root"' EXIT INT TERM
mkdir -p "$image/blobs/sha256"
sum() { sha256sum "$1" | cut -c 1-64; }
# Moves a file among the blobs; `digest` and `size` are its.
blob() {
    digest=$(sum "$1") size=$(stat -c %s "$1")
    mv "$1" "$image/blobs/sha256/$digest"
}

# Sockets belong into /run/tautline, a volume; mount points and /tmp are what a runtime expects.
mkdir -p "$root/usr/bin" "$root/usr/share/doc" "$root/run/tautline" "$root/tmp" "$root/proc" "$root/sys" "$root/dev" "$root/etc"
chmod 755 "$image" "$root"
chmod 1777 "$root/tmp" "$root/run/tautline"
cp "$tree/usr/bin/tautline" "$root/usr/bin"
cp -R "$tree/usr/share/doc/tautline" "$root/usr/share/doc"
archive "$root" >"$image/layer.tar"
plain=$(sum "$image/layer.tar")
gzip -9 -n "$image/layer.tar"
blob "$image/layer.tar.gz"
layer=$digest layer_size=$size

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
labels="\"org.opencontainers.image.title\": \"tautline\", \"org.opencontainers.image.version\": \"$version\", \"org.opencontainers.image.licenses\": \"Apache-2.0 OR MIT\""
cat >"$image/config" <<JSON
{"created": "$created", "architecture": "$architecture"$variant, "os": "linux",
 "config": {"Entrypoint": ["/usr/bin/tautline"], "Cmd": ["--help"], "WorkingDir": "/", "Env": ["PATH=/usr/bin"], "Labels": {$labels}},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$plain"]},
 "history": [{"created": "$created", "created_by": "make dist"}]}
JSON
blob "$image/config"
config=$digest config_size=$size

cat >"$image/manifest" <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:$config", "size": $config_size},
 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:$layer", "size": $layer_size}]}
JSON
blob "$image/manifest"

cat >"$image/index.json" <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
 "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:$digest", "size": $size,
  "platform": {"architecture": "$architecture"$variant, "os": "linux"},
  "annotations": {"org.opencontainers.image.ref.name": "$version"}}]}
JSON
echo '{"imageLayoutVersion": "1.0.0"}' >"$image/oci-layout"
archive "$image" >"$out/tautline-$version-$architecture.oci.tar"
