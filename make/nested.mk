# The machine in which KVM is real; included by the Makefile.

.PHONY: nested

## nested: a shell in a machine in which KVM is real, with tautline in it; docs/nested.md
nested: release
	@scripts/setup.sh test
	@$(CARGO) run --quiet --locked --release -p peers --example nested -- $(TAUTLINE) $(PROGRAMS)
