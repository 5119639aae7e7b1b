#!/bin/sh
# actionlint over .github/workflows.
set -eu
cd "$(dirname "$0")/.."
. scripts/absent.sh
if command -v actionlint >/dev/null 2>&1; then
    actionlint
else
    absent actionlint 'actionlint is not installed (go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12)'
fi
