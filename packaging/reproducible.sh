# Sourced: archive FOLDER [NAME] writes a tar of what is in FOLDER, below NAME: sorted, of root, all of one time.
archive() {
    LC_ALL=C tar --create --file - --directory "$1" --format gnu --sort name --mtime "@$SOURCE_DATE_EPOCH" \
        --owner 0 --group 0 --numeric-owner ${2:+--transform "s,^\./,$2/,;s,^\.\$,$2,"} .
}
