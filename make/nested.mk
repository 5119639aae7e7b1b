# The machine in which KVM is real; included by the Makefile.

.PHONY: nested test-nested-long

## nested: a shell in a machine in which KVM is real, with tautline in it; docs/nested.md
nested: release
	@scripts/setup.sh test
	@$(CARGO) run --quiet --locked --release -p peers --example nested -- $(TAUTLINE) $(PROGRAMS)

## test-nested-long: what the tests in the nested machine leave out because it repeats: two blocks of the costs of KVM
test-nested-long:
	@scripts/setup.sh test
	$(CARGO) test --locked -p tautline --test nested again_in_each_block -- --ignored --nocapture --test-threads 1
