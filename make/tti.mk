# Ticks at length; included by the Makefile.

.PHONY: test-tti check-tti

## test-tti: in the nested machine: 60,000 ticks to a guest's user space with their stages, and a delay planted at each; some minutes
test-tti:
	@scripts/setup.sh test
	$(CARGO) test --locked --release -p tautline --test nested tti:: -- --ignored --nocapture --test-threads 1

## check-tti: tautline tti beside cyclictest, natively and in a container, under every load; exit code 1 beyond 15 % and 3 µs
check-tti:
	@scripts/setup.sh test
	$(CARGO) test --locked --release -p tautline --test commands medians -- --ignored --nocapture
