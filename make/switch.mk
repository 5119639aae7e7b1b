# Targets of the switch; included by the Makefile.

.PHONY: bench-switch-idle test-switch-extra recovery soak

SAMPLES ?= 200
SECONDS_IDLE ?= 10

## bench-switch-idle: CPU use of an idle switch, and the time of the first frame after idleness; eight minutes, on a quiet machine
bench-switch-idle:
	$(CARGO) bench --locked -p tautline --bench switch_idle -- $(SAMPLES) $(SECONDS_IDLE)

## recovery: the switch killed under load and started again, and taken over, 100 rounds of each layout and driver; a guest migrated ten times with each
recovery:
	TAUTLINE_RECOVERY_ROUNDS=100 $(CARGO) test --locked --release -p tautline --test recovery --test recovery_drivers -- --nocapture --test-threads 1
	TAUTLINE_RECOVERY_ROUNDS=100 $(CARGO) test --locked --release -p tautline --test switch_guests -- --ignored migrates --nocapture --test-threads 1
	TAUTLINE_UPGRADE_ROUNDS=100 $(CARGO) test --locked --release -p tautline --test upgrade -- --nocapture --test-threads 1

## soak: guests, ports, hostile peers, kills and captures at random, for so many SECONDS (an hour): nothing may grow
soak:
	TAUTLINE_SOAK_SECONDS=$(or $(SECONDS),3600) $(CARGO) test --locked --release -p tautline --test switch_control soak -- --nocapture

## test-switch-extra: limits of instructions for a frame from guest to guest
test-switch-extra:
	command -v valgrind >/dev/null || apt-get install -y -q valgrind
	$(CARGO) run --locked --release -p port --example forward gate
