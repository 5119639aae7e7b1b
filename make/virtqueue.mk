# Targets of the queues; included by the Makefile.

.PHONY: bench-virtqueue ablation-virtqueue fuzz test-foreign

## bench-virtqueue: ns and instructions per buffer, per layout, features and burst size
bench-virtqueue:
	cargo run --release -p tautline-virtqueue --example bench

## ablation-virtqueue: each technique switched off alone
ablation-virtqueue:
	scripts/ablation.sh

## fuzz: hostile peers; SECONDS_EACH and EXECUTIONS say how long
fuzz:
	scripts/fuzz.sh

## test-foreign: aarch64 under emulation, and the code that the compiler makes for its queues
test-foreign:
	scripts/aarch64.sh
