# Ticks at length; included by the Makefile.

.PHONY: test-tti check-tti

## test-tti: 60,000 ticks to user space of a guest under KVM, in the nested machine, with their stages; some minutes
test-tti:
	@scripts/setup.sh test
	$(CARGO) test --locked --release -p tautline --test tti_nested -- --ignored --nocapture

## check-tti: tautline tti beside cyclictest, natively and in a container, under every load; exit code 1 beyond 15 % and 3 µs
check-tti:
	@scripts/setup.sh test
	$(CARGO) test --locked --release -p tautline --test tti_cyclictest medians -- --ignored --nocapture
