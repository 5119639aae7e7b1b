# What `make test` builds and checks before it runs anything; included by the Makefile. Each build ends with one large
# crate on one core, so `make -j2 checks` runs two at a time. cargo shares make's job slots (hence the +).

.PHONY: checks check-lints check-tests check-oldest check-release check-foreign

## checks: lints, dependencies, the oldest Rust, and every build that the tests need
checks: check-tests check-foreign check-oldest check-release

# The tests that run under emulation, and the release's binaries.
check-foreign:
	+scripts/aarch64.sh build
	+scripts/dist.sh build

check-lints:
	+@if $(CARGO) clippy --version >/dev/null 2>&1; then \
	    $(CARGO) clippy --locked --workspace --all-targets -- -D warnings; \
	else \
	    echo 'lints: not run, this Rust has no clippy (Debian: rust-web-clippy)'; \
	fi

# After the lints: both write into one folder of cargo's.
check-tests: check-lints
	+$(CARGO) test --locked --workspace --no-run

check-oldest:
	scripts/dependencies.sh
	+scripts/oldest-rust.sh

# After the release's: both write into one folder of cargo's.
check-release: check-foreign
	+$(CARGO) build --locked --workspace --release
