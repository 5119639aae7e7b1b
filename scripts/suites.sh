#!/bin/sh
# Runs OVN's and Open vSwitch's own suites, of Debian's source packages, with `tautline switch` in the place of
# ovs-vswitchd: suites.sh [SUITE[:CASES]…], where SUITE is ovn, ovn-system or ovs-system, and CASES is what autotest
# takes (numbers, ranges, -k WORD). Without a word: all cases of all suites. Called by `make suites`, after set-up.
# The word os-ken[:VERSION[/FOLDER]] runs the switch tester of os-ken (scripts/suites/os_ken.py).
# By default, the cases that start a switch run once each, without their variants for other settings of OVN.
# LIMIT is the time in seconds after which a suite ends; JOBS is how many simulated cases run at once.
# The results are in docs/results/suites.json, from which scripts/suites/page.py makes docs/suites.md.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tautline
sources=$cache/suites
if [ ! -e "$sources/root/usr/bin/arping" ]; then
    mirror=$(apt-get indextargets 'Created-By: Packages' --format '$(CODENAME) $(REPO_URI)' |
        sed -n "s/^$(. /etc/os-release && echo "$VERSION_CODENAME") //p" | head -n 1)
    scripts/suites/fetch.sh "$sources" "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg
fi
[ -x "$sources/ovstest" ] || scripts/suites/ovstest.sh "$sources"
os_ken=$sources/os-ken
if [ ! -e "$os_ken/complete" ]; then
    python3 -m venv --clear "$os_ken"
    "$os_ken/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r scripts/suites/os-ken.txt
    : >"$os_ken/complete"
fi
libraries=$sources/root/usr/lib/x86_64-linux-gnu
work=${WORK:-$root/target/suites}
TAUTLINE=${TAUTLINE_PROGRAM:-$root/target/$(rustc -vV | sed -n 's/^host: //p')/release/tautline}
export TAUTLINE

# The programs that the suites find, in one folder: that in ovs-vswitchd's place, and Debian's.
programs=$work/programs
rm -rf "$programs"
mkdir -p "$programs"
wrap() { # wrap NAME FILE: a program of the unpacked root, with the libraries beside it
    case $(head -c 2 "$2") in
    '#!') ln -s "$2" "$1" ;;
    *) printf '#!/bin/sh\nexec %s/ld-linux-x86-64.so.2 --library-path %s %s "$@"\n' "$libraries" "$libraries" "$2" >"$1"
        chmod 755 "$1" ;;
    esac
}
for program in "$sources"/root/usr/bin/ov[ns]* "$sources"/root/usr/sbin/ovsdb-server; do
    wrap "$programs/${program##*/}" "$program"
done
wrap "$programs/nc" "$sources/root/usr/bin/ncat"
# ncat sends the signal that ends it to its whole process group, which is the suite's unless it has one of its own.
sed -i 's/^exec /exec setsid /' "$programs/nc"
wrap "$programs/arping" "$sources/root/usr/bin/arping"
# Debian's OVN warns of devices that no machine without certain cards has; the suites take each warning for a failure.
sed -i 's/ "$@"$/ -vvif_plug_provider:off "$@"/' "$programs/ovn-controller"
OVS_VSWITCHD=$work/ovs-vswitchd
rm -f "$OVS_VSWITCHD"
wrap "$OVS_VSWITCHD" "$sources/root/usr/lib/openvswitch-switch/ovs-vswitchd"
export OVS_VSWITCHD
printf '#!/bin/sh\nexec python3 %s/scripts/suites/ovs-vswitchd.py "$@"\n' "$root" >"$programs/ovs-vswitchd"
# Python finds its modules, such as Scapy, by the path of its program: a link from another folder would not do.
printf '#!/bin/sh\nexec %s/python/bin/python3 "$@"\n' "$sources" >"$programs/python3"
ln -s "$sources/python/bin/scapy" "$sources/ovstest" "$programs/"
chmod 755 "$programs/ovs-vswitchd" "$programs/python3"

# The keys and certificates of OVN's simulated chassis, under the names of its tests/automake.mk.
certify() { # certify FOLDER
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=authority -keyout "$1/authority.pem" \
        -out "$1/testpki-cacert.pem" 2>/dev/null
    for chassis in test test2 main hv hv-foo hv-1 hv-2 hv-10-1 hv-10-2 hv-20-1 hv-20-2 vtep hv_gw pbr-hv ext1 \
        $(seq -f hv%g 10) $(seq -f gw%g 5); do
        prefix=$1/testpki-$chassis
        openssl req -newkey rsa:2048 -nodes -subj "/CN=$chassis" -keyout "$prefix-privkey.pem" -out "$prefix-req.pem" 2>/dev/null
        openssl x509 -req -in "$prefix-req.pem" -CA "$1/testpki-cacert.pem" -CAkey "$1/authority.pem" -days 3650 \
            -out "$prefix-cert.pem" 2>/dev/null
    done
}

# A testsuite of these sources, as their makefile would generate it, and its two files of settings.
generate() { # generate NAME SOURCE FILE: $work/NAME/testsuite from SOURCE/tests/FILE
    folder=$work/$1 source=$2
    mkdir -p "$folder/tests"
    printf '%s\n' "m4_define([AT_PACKAGE_NAME],[$1])" "m4_define([AT_PACKAGE_TARNAME],[$1])" \
        'm4_define([AT_PACKAGE_VERSION],[0])' "m4_define([AT_PACKAGE_STRING],[$1])" \
        'm4_define([AT_PACKAGE_BUGREPORT],[])' 'm4_define([AT_PACKAGE_URL],[])' >"$folder/package.m4"
    (cd "$source" && autom4te --language=autotest -I "$source" -I "$folder" -o "$folder/testsuite" "tests/$3")
    printf '%s\n' "at_testdir='tests'" "abs_builddir='$folder'" "at_srcdir='$source/tests'" "at_suite='$1'" "abs_srcdir='$source/tests'" \
        "at_top_srcdir='$source'" "abs_top_srcdir='$source'" "at_top_build_prefix='$folder/'" \
        "abs_top_builddir='$folder'" "at_top_builddir='$folder'" "EXEEXT=''" "AUTOTEST_PATH='$programs:$source/tests'" \
        "SHELL=\${CONFIG_SHELL-'/bin/bash'}" >"$folder/atconfig"
    # Python finds the modules of Open vSwitch by its sources.
    printf '%s\n' "ovs_srcdir='$sources/openvswitch'" >"$folder/atlocal"
    sed -e "s,@PYTHON3@,$sources/python/bin/python3,g; s,@EGREP@,grep -E,; s,@HAVE_OPENSSL@,no,; s,@OPENSSL_SUPPORTS_SNI@,no,
        s,@HAVE_UNBOUND@,no,; s,@[A-Z_0-9]*@,no,g" "$source/tests/atlocal.in" >>"$folder/atlocal"
    # A database of OVN listens at TCP only in a suite that has OpenSSL; ovn's chassis would speak TLS with it.
    [ "$1" != ovn-system ] || printf '%s\n' "HAVE_OPENSSL=yes" >>"$folder/atlocal"
    printf '%s\n' "ovs_builddir='$folder'" \
        "top_srcdir='$source'" "export ovs_srcdir PYTHON3 PYTHON" "unset MALLOC_CHECK_ MALLOC_PERTURB_" >>"$folder/atlocal"
}

suite() { # suite NAME SOURCE FILE PART…: the cases of these parts that start a switch
    case " $wanted " in
    '  ') cases= ;;
    *" $1 "*) cases= ;;
    *" $1:"*) cases=${wanted#*"$1":} cases=${cases%% ov[ns][:-]*} cases=${cases%% os-ken*} ;;
    *) return 0 ;;
    esac
    printf '\n=== %s\n' "$1"
    name=$1 source=$sources/$2
    generate "$name" "$source" "$3"
    [ "$2" != ovn ] || certify "$work/$name/tests"
    shift 3
    (cd "$work/$name" && PATH=$programs:$PATH bash ./testsuite --list >list 2>/dev/null)
    [ -n "$cases" ] || cases=$(python3 scripts/suites/cases.py "$source/tests" "$@" <"$work/$name/list")
    # Cases of a system share names of interfaces and namespaces.
    case $name in
    *-system) jobs=1 ;;
    *) jobs=${JOBS:-2} ;;
    esac
    # In namespaces of its own: interfaces, folders and processes of the suite end with it.
    (cd "$work/$name" && PATH=$programs:$PATH timeout "${LIMIT:-86400}" unshare --net --mount --pid --fork --kill-child sh -c '
        mount -t proc proc /proc && mount -t tmpfs run /run && mkdir -p /run/netns && ip link set lo up &&
        exec bash ./testsuite -j"$0" --color=never "$@"' "$jobs" $cases) | tee "$work/$name/output"
    python3 scripts/suites/page.py "$name" "$work/$name"
}

wanted=
for word; do wanted="$wanted$word "; done
suite ovn ovn testsuite.at ovn.at ovn-controller.at
suite ovn-system ovn system-userspace-testsuite.at system-ovn.at
suite ovs-system openvswitch system-afxdp-testsuite.at system-traffic.at

case " $wanted " in
'  ' | *' os-ken'*)
    printf '\n=== os-ken\n'
    folders=
    for word in $wanted; do
        case $word in os-ken:*) folders="$folders ${word#*:}" ;; esac
    done
    # shellcheck disable=SC2086 # a list of folders
    OVS_PROGRAMS=$programs OVS_SCHEMA=$sources/root/usr/share/openvswitch/vswitch.ovsschema OS_KEN=$os_ken/bin/python3 \
        python3 scripts/suites/os_ken.py "$work/os-ken" $folders
    python3 scripts/suites/page.py os-ken "$work/os-ken"
    ;;
esac
[ -n "$wanted" ] || python3 scripts/suites/page.py goals
