#!/bin/sh
# sbom.sh DIST: writes DIST/tautline-VERSION.cdx.json, the crates that are linked into `tautline` as a CycloneDX 1.5
# document, and adds its sum to DIST/SHA256SUMS. Needs python3; everything is read from `cargo metadata`.
set -eu
cd "$(dirname "$0")/.."
out=$1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
file=tautline-$version.cdx.json
cargo metadata --locked --format-version 1 --filter-platform "$(uname -m)-unknown-linux-gnu" |
    python3 -c '
import json, sys

metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
# From the program along what is linked in: dependencies of tests and of build scripts are not.
linked = lambda node: [d["pkg"] for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
root = next(id for id, package in packages.items() if package["name"] == "tautline" and id in metadata["workspace_members"])
seen, todo = set(), [root]
while todo:
    id = todo.pop()
    if id not in seen:
        seen.add(id)
        todo += linked(nodes[id])
url = lambda package: "pkg:cargo/%s@%s" % (package["name"], package["version"])
def component(package):
    found = {"type": "library", "bom-ref": url(package), "name": package["name"], "version": package["version"], "purl": url(package)}
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return found
program = dict(component(packages[root]), type="application")
json.dump({
    "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
    "metadata": {"component": program},
    "components": sorted((component(packages[id]) for id in seen - {root}), key=lambda one: one["purl"]),
    "dependencies": sorted(({"ref": url(packages[id]), "dependsOn": sorted(url(packages[d]) for d in linked(nodes[id]))} for id in seen), key=lambda one: one["ref"]),
}, sys.stdout, indent=1)
' >"$out/$file"
[ ! -f "$out/SHA256SUMS" ] || (cd "$out" && sha256sum -- "$file" >>SHA256SUMS)
