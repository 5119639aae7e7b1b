#!/bin/sh
# A newcomer's first commands in clean roots of other releases: the Debian package is installed, and
# `make compare --quick --only os` runs with its program. Root; the roots are kept in the cache. Called by `make test-roots`.
#   clean-roots.sh DEB [RELEASE...]   Debian's bookworm, trixie and sid; Ubuntu's, as noble; devel is Ubuntu's newest
# What each root printed is in target/roots/RELEASE.log; the last screen of each is printed.
set -eu
cd "$(dirname "$0")/.."
deb=${1:?'give the Debian package that make dist has made'}
shift
[ -s "$deb" ] || { printf 'clean-roots: there is no %s; make dist makes it\n' "$deb" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { printf 'clean-roots: making a root needs root; run it with sudo\n' >&2; exit 1; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline/roots
ubuntu=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
logs=target/roots
mkdir -p "$cache" "$logs"
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM

# How this machine's apt reaches its mirrors. A mirror that lags has lists that are out of date by their own word; their
# signatures are checked all the same.
apt_options() { apt-config dump | sed -n 's/^\(Acquire::.*Proxy .*\);$/--aptopt=\1/p'; }
debian_mirror() {
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    apt-get indextargets 'Created-By: Packages' --format '$(CODENAME) $(REPO_URI)' | sed -n "s/^$codename //p" | head -n 1
}
# Ubuntu's keys: of this system, or of Debian's package of them. apt reads them as a user of its own, which may not look
# into every home.
ubuntu_keys() {
    keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    if [ ! -s "$keys" ]; then
        folder=$work/keys
        [ -d "$folder" ] || mmdebstrap "$@" --variant=extract --format=directory --include=ubuntu-archive-keyring trixie \
            "$folder" "deb $(debian_mirror) trixie main" >&2
        keys=$folder$keys
    fi
    echo "$keys"
}
make_root() { # make_root RELEASE: its archive, where the cache has none
    [ ! -s "$cache/$1.tar" ] || return 0
    apt_options >"$work/options"
    release=$1
    set -- --quiet '--aptopt=Acquire::Check-Valid-Until "false"'
    while read -r option; do set -- "$@" "$option"; done <"$work/options"
    case $release in
    bookworm | trixie | sid) suite=$release source="deb $(debian_mirror) $release main" ;;
    *)
        # `devel` is a name for the newest release, whose lists have its own name.
        suite=$(curl -fsS "$ubuntu/dists/$release/Release" | sed -n 's/^Codename: //p')
        source="deb $ubuntu $suite main universe"
        [ -n "$suite" ] || { printf 'clean-roots: %s has no list of %s\n' "$ubuntu/dists" "$release" >&2; exit 1; }
        keys=$(ubuntu_keys "$@")
        set -- "$@" "--keyring=$keys"
        ;;
    esac
    mmdebstrap "$@" --variant=apt --format=tar "$suite" "$cache/$release.new.tar" "$source"
    mv "$cache/$release.new.tar" "$cache/$release.tar"
}

# What runs in the root, with a tree of processes and mounts of its own that end with it.
inside='
    mount --bind "$0" "$0" && cd "$0" || exit 1
    mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev || exit 1
    mount -t tmpfs tmpfs run && mount -t tmpfs tmpfs tmp || exit 1
    mkdir -p run/old && pivot_root . run/old || exit 1
    cd /tautline && exec sh ./newcomer.sh'
cat >"$logs/newcomer.sh" <<'SCRIPT'
set -e
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
echo "newcomer: $PRETTY_NAME"
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./tautline.deb make >install.log 2>&1 || { cat install.log; exit 1; }
echo "newcomer: $(tautline --version) is installed by apt: $(dpkg-query -W -f '${Package} ${Version} ${Status}' tautline)"
make compare TAUTLINE=tautline ARGS='--only os'
SCRIPT

status=0
for release in ${*:-bookworm trixie sid noble resolute devel}; do
    make_root "$release"
    root=$work/root
    mkdir "$root"
    tar -xf "$cache/$release.tar" -C "$root"
    mkdir "$root/tautline"
    cp -R Makefile make scripts "$root/tautline"
    cp "$deb" "$root/tautline/tautline.deb"
    cp "$logs/newcomer.sh" "$root/tautline"
    cp /etc/resolv.conf /etc/hosts "$root/etc"
    begun=$(date +%s) ended=0
    env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin \
        unshare --mount --pid --fork --kill-child sh -c "$inside" "$root" >"$logs/$release.log" 2>&1 </dev/null || ended=$?
    rm -rf --one-file-system "$root"
    printf '== %s: exit code %s after %s s; %s\n' "$release" "$ended" "$(($(date +%s) - begun))" "$logs/$release.log"
    grep '^newcomer: ' "$logs/$release.log" || :
    tail -n 24 "$logs/$release.log"
    [ "$ended" = 0 ] || status=1
done
exit $status
