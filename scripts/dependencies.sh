#!/bin/sh
# Holds what deny.toml says of the crates that are linked in, and that none is named without being used. Whether
# a known weakness is among them is asked of the RustSec database, where that can be fetched.
set -eu
cd "$(dirname "$0")/.."
. scripts/absent.sh
tools=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/tools/bin
PATH=$tools:$PATH

cargo deny --log-level error --locked check licenses bans sources
cargo shear
database=https://github.com/RustSec/advisory-db
if GIT_TERMINAL_PROMPT=0 timeout 30 git ls-remote "$database" HEAD >/dev/null 2>&1; then
    cargo deny --log-level error --locked check advisories
else
    absent advisories "known weaknesses of dependencies are not checked: $database cannot be reached"
fi
