# What `make test` builds and checks before it runs anything; included by the Makefile. Each build ends with one large
# crate on one core, so `make -j2 checks` runs two at a time. cargo shares make's job slots (hence the +).

.PHONY: checks check-lints check-tests check-oldest check-release check-foreign

## checks: lints, the oldest Rust, and every build that the tests need
checks: check-tests check-foreign check-release check-oldest

# The tests that run under emulation, and the release's binary for the other processor.
FOREIGN = $(if $(filter x86_64,$(shell uname -m)),aarch64,x86_64)
check-foreign:
	+scripts/aarch64.sh build
	+ARCHITECTURES=$(FOREIGN) scripts/dist.sh build

check-release: release

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
	+scripts/oldest-rust.sh
