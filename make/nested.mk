# The machine in which KVM is real; included by the Makefile.

.PHONY: nested test-nested-long

## nested: a shell in a machine in which KVM is real, with tautline in it (ARCH=arm64 or arm64-nvhe: an arm64 machine, with static PROGRAMS); docs/nested.md
ifdef ARCH
nested:
	@scripts/setup.sh test
	@$(CARGO) run --quiet --locked -p tautline-peers --example nested -- $(ARCH) "$$(scripts/arm-programs.sh)/tautline" $(PROGRAMS)
else
nested: release
	@scripts/setup.sh test
	@$(CARGO) run --quiet --locked --release -p tautline-peers --example nested -- $(TAUTLINE) $(PROGRAMS)
endif

## test-nested-long: in the nested machine, what takes long or repeats: network paths into guests under KVM, a packet's steps on each, two blocks of the costs of KVM, a virtual function of a card, a guest on a vDPA device beside others, wake-ups on partitions under load; and in the arm64 machine, the worst latency, other interrupt controllers and the shell of `make nested`
test-nested-long:
	@scripts/setup.sh test
	$(CARGO) test --locked -p tautline --test nested -- again_in_each_block network:: partition_loads:: virtual_function:: packets_take_every_path --ignored --nocapture --test-threads 1
	$(CARGO) test --locked -p tautline --test switch -- vdpa::compared --ignored --nocapture
	$(CARGO) test --locked -p tautline-peers --test arm -- kvm_worst on_other_interrupt_controllers make_nested --ignored --nocapture --test-threads 1
