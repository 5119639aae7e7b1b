# The worst case at length, and exits on arm64; included by the Makefile.

.PHONY: test-worst bench-vhe

## bench-vhe: what exits of an arm64 guest cost with VHE and without, in instructions of an emulated CPU; five boots of each, in turns; three minutes after the build
bench-vhe:
	@scripts/setup.sh test
	$(CARGO) run --quiet --locked -p tautline-peers --example bench_vhe -- "$$(scripts/arm-programs.sh)/tautline"

## test-worst: five causes of long wake-ups, planted twice each in the nested machine: nine of ten are to be named first; and both sides on one clock
test-worst:
	@scripts/setup.sh test
	command -v perf >/dev/null || apt-get install -y -q linux-perf
	$(CARGO) test --locked --release -p tautline --test nested kvm_worst_causes:: -- --ignored --nocapture --test-threads 1
