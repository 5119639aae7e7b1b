# Sourced. `absent NAME WHY`: a check cannot run for want of NAME. Fails in continuous integration (CI is set), unless
# TAUTLINE_SKIP holds the name; elsewhere the reason is printed, and collected in the file TAUTLINE_NOT_RUN.
absent() {
    case ,${TAUTLINE_SKIP:-}, in
    *,"$1",*) ;;
    *) if [ -n "${CI:-}" ]; then
        printf '%s: %s; set TAUTLINE_SKIP=%s to go without it\n' "$1" "$2" "$1" >&2
        exit 1
    fi ;;
    esac
    printf 'not run here for want of %s: %s\n' "$1" "$2" | tee -a "${TAUTLINE_NOT_RUN:-/dev/null}"
}
