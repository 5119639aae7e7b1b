# Targets of the queues; included by the Makefile.

.PHONY: bench-virtqueue ablation-virtqueue fuzz test-virtqueue-extra

## bench-virtqueue: ns and instructions per buffer, per layout, features and burst size
bench-virtqueue:
	cargo run --release -p virtqueue --example bench

## ablation-virtqueue: each technique switched off alone
ablation-virtqueue:
	scripts/ablation.sh

## fuzz: hostile peers; SECONDS_EACH and EXECUTIONS say how long
fuzz:
	scripts/fuzz.sh

## test-virtqueue-extra: limits of instructions, aarch64 under emulation and its code
test-virtqueue-extra:
	command -v valgrind >/dev/null || apt-get install -y -q valgrind
	cargo run --release -p virtqueue --example bench gate
	scripts/aarch64.sh
