#!/bin/sh
# Prints the slowest tests of a run: slowest-tests.sh JUNIT-FILE [COUNT].
set -eu
[ -e "$1" ] || exit 0
printf '\n=== slowest tests, seconds\n'
sed -n 's/.*<testcase name="\([^"]*\)" classname="\([^"]*\)".* time="\([0-9.]*\)".*/\3 \2 \1/p' "$1" |
    sort -rn | head -n "${2:-25}"
