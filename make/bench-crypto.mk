# A crypto device beside QEMU's own; included by the Makefile.

.PHONY: bench-crypto crypto-kills

## bench-crypto: how long a guest's request takes on our crypto device and on QEMU's built-in back-end, in turns in one guest, with QEMU 7.2 and with QEMU 10; the guest's CPU is emulated
bench-crypto:
	@scripts/setup.sh test
	BLOCKS=$(or $(BLOCKS),60) $(CARGO) test --release --locked -p tautline --test crypto beside_qemu::a_request -- --include-ignored --nocapture --test-threads 1

## crypto-kills: a crypto device killed 1,000 times under requests; what has come back is right
crypto-kills:
	TAUTLINE_CRYPTO_KILLS=1000 $(CARGO) test --locked -p tautline --test crypto devices_that_are_killed -- --nocapture
