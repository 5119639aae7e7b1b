# A crypto device beside QEMU's own; included by the Makefile.

.PHONY: bench-crypto

## bench-crypto: how long a guest's request takes on our crypto device and on QEMU's built-in back-end, in turns in one guest, with QEMU 7.2 and with QEMU 10; the guest's CPU is emulated
bench-crypto:
	@scripts/setup.sh test
	BLOCKS=$(or $(BLOCKS),60) $(CARGO) test --release --locked -p tautline --test crypto beside_qemu:: -- --nocapture --test-threads 1
