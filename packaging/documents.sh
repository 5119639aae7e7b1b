#!/bin/sh
# documents.sh TAUTLINE FOLDER: completions and man pages, as the program itself writes them.
set -eu
tautline=$1 folder=$2
mkdir -p "$folder/man" "$folder/completions"
for shell in bash zsh fish; do
    "$tautline" completions "$shell" >"$folder/completions/$shell"
    [ -s "$folder/completions/$shell" ]
done
"$tautline" man "$folder/man"
[ -s "$folder/man/tautline.1" ] && [ -s "$folder/man/tautline-switch.1" ]
