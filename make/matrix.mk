# Other distributions; included by the Makefile.

.PHONY: test-setup

## test-setup: scripts/setup.sh compare in clean roots of Debian 12, 13, 13 with backports, and sid
test-setup:
	@scripts/setup.sh test
	$(CARGO) test --locked -p tautline --test repository each_release -- --ignored --nocapture
