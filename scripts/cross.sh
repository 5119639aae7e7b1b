# Sourced with ARCH set to x86_64 or aarch64: how to build static programs for it. Sets `cargo` (the program),
# `target` (the triple) and `built` (where cargo puts its results), and exports what cargo reads.
# For another architecture than this machine's it takes the distribution's compiler, whose standard library
# exists for both (scripts/setup.sh dist), unless rustup's toolchain has the target.
target=$ARCH-unknown-linux-gnu
cargo=${CARGO:-cargo}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
if [ "$(uname -m)" != "$ARCH" ]; then
    # Once: a script that has sourced this calls others that source it too.
    [ "${CARGO_TARGET_DIR##*/}" = "$ARCH" ] || CARGO_TARGET_DIR=$CARGO_TARGET_DIR/$ARCH
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        # By name: a rustup toolchain on PATH has no standard library for the other architecture.
        for root in /usr/lib/rust-* /usr; do
            [ -d "$root/lib/rustlib/$target/lib" ] && [ -x "$root/bin/cargo" ] && break
        done
        cargo=$root/bin/cargo
        export RUSTC="$root/bin/rustc" RUSTDOC="$root/bin/rustdoc"
    fi
    case $ARCH in
    aarch64)
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static
        ;;
    x86_64)
        export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=x86_64-linux-gnu-gcc
        export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=qemu-x86_64-static
        ;;
    esac
fi
export CARGO_TARGET_DIR
built=$CARGO_TARGET_DIR/$target/release
