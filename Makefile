# make compare   what virtualization costs on this machine: table and page, in about four minutes
#                (TAUTLINE=FILE: with a program that is there, without Rust; ARGS=...: more options)
# make test      what each change must pass; installs what it needs
# make test-long all that takes longer (STEPS="soak dist": some of it), with a record in bench-results/long/
# make prove     shows that the comparison can be trusted on this machine
# make bench-peers  our switch beside DPDK and Open vSwitch (QUICK=1: within 5 minutes)
# make bench-crypto  a guest's request on our crypto device beside QEMU's own
# make check-net  the network work beside iperf3 and sockperf
# make dist      what a release consists of, in dist/
# make fast      the tests that need nothing but Rust, in seconds

SHELL := /bin/sh
CARGO ?= cargo

.PHONY: compare build-compare setup-run test test-long fast setup lint release prove

ifeq ($(origin TAUTLINE),command line)
compare: setup-run
else
compare: setup build-compare
endif
compare: TAUTLINE = target/$(HOST)/compare/tautline
compare:
	$(TAUTLINE) compare --quick --output compare.json --html compare.html $(ARGS)

setup-run:
	@scripts/setup.sh run

setup:
	@scripts/setup.sh compare

# What `compare` and the commands around it need, in less than half of the release's CPU time.
build-compare:
	+$(CARGO) build --profile compare --locked -p tautline --no-default-features

release:
	+$(CARGO) build --release --locked -p tautline

# The folder of the target that .cargo/config.toml names.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
TAUTLINE = target/$(HOST)/release/tautline

prove: setup release
	scripts/prove.sh $(TAUTLINE)

lint:
	$(CARGO) fmt --check
	scripts/lints.sh

fast:
	$(CARGO) test --locked --workspace --lib

test:
	@scripts/setup.sh test
	scripts/test.sh

test-long: release
	@scripts/setup.sh test
	scripts/test-long.sh $(STEPS)

-include make/*.mk
