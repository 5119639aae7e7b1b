# The worst case at length; included by the Makefile.

.PHONY: test-worst

## test-worst: five causes of long wake-ups, planted twice each in the nested machine: nine of ten are to be named first; and both sides on one clock
test-worst:
	@scripts/setup.sh test
	command -v perf >/dev/null || apt-get install -y -q linux-perf
	$(CARGO) test --locked --release -p tautline --test nested kvm_worst_causes:: -- --ignored --nocapture --test-threads 1
