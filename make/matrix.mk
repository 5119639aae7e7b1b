# Other builds of the peers, and other distributions; included by the Makefile.

.PHONY: test-matrix test-setup test-roots suites

## test-matrix: the tests with QEMU, guests, DPDK and Open vSwitch against the builds of Debian 13, its backports and sid (SETS=sid: one of them); writes docs/support-matrix.md
test-matrix:
	@scripts/setup.sh test
	$(CARGO) run --quiet --locked -p tautline-peers --example matrix -- $(SETS)

## test-setup: scripts/setup.sh compare in clean roots of Debian 12, 13, 13 with backports, and sid
test-setup:
	@scripts/setup.sh test
	$(CARGO) test --locked -p tautline --test repository each_release -- --ignored --nocapture

## test-roots: the Debian package installed, and make compare --quick --only os run, in clean roots of Debian 12, 13 and sid, and of Ubuntu 24.04, 26.04 and its newest (ROOTS=sid: one of them)
test-roots:
	ARCHITECTURES=$(shell uname -m) scripts/dist.sh
	scripts/clean-roots.sh dist/*.deb $(ROOTS)

## suites: OVN's and Open vSwitch's own suites with our switch in the place of ovs-vswitchd, and os-ken's switch tester; hours (SUITES="ovn-system ovn:51": some of it); writes docs/suites.md
suites: release
	@scripts/setup.sh test
	scripts/suites.sh $(SUITES)
