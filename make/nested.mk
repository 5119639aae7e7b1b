# The machine in which KVM is real; included by the Makefile.

.PHONY: nested test-nested-long

## nested: a shell in a machine in which KVM is real, with tautline in it; docs/nested.md
nested: release
	@scripts/setup.sh test
	@$(CARGO) run --quiet --locked --release -p tautline-peers --example nested -- $(TAUTLINE) $(PROGRAMS)

## test-nested-long: in the nested machine, what takes long or repeats: network paths into guests under KVM, a packet's steps on each, two blocks of the costs of KVM
test-nested-long:
	@scripts/setup.sh test
	$(CARGO) test --locked -p tautline --test nested -- again_in_each_block network:: packets_take_every_path --ignored --nocapture --test-threads 1
