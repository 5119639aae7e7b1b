# Targets of the switch; included by the Makefile.

.PHONY: bench-switch-idle recovery guest-kills scale-ovn soak torture-long torture-peers test-flows test-controllers lines

SAMPLES ?= 200
SECONDS_IDLE ?= 10

## bench-switch-idle: CPU use of an idle switch, and the time of the first frame after idleness; eight minutes, on a quiet machine
bench-switch-idle:
	$(CARGO) bench --locked -p tautline --bench switch_idle -- $(SAMPLES) $(SECONDS_IDLE)

## recovery: the switch killed under load and started again, and taken over, 100 rounds of each layout and driver; a guest migrated ten times with each
recovery:
	TAUTLINE_RECOVERY_ROUNDS=100 $(CARGO) test --locked --release -p tautline --test switch recovery -- --nocapture --test-threads 1
	TAUTLINE_RECOVERY_ROUNDS=100 $(CARGO) test --locked --release -p tautline --test switch -- migrates --nocapture --test-threads 1
	TAUTLINE_UPGRADE_ROUNDS=100 $(CARGO) test --locked --release -p tautline --test switch upgrade:: -- --nocapture --test-threads 1

## guest-kills: the switch of a stock guest killed KILLS (500) times under traffic; the guest answers after each
guest-kills:
	TAUTLINE_GUEST_KILLS=$(or $(KILLS),500) $(CARGO) test --locked --release -p tautline --test switch hundreds_of_kills -- --ignored --nocapture

## scale-ovn: OVN with 20, 200 and 2,000 logical ports: time until the switch forwards, and its memory, beside Open vSwitch
scale-ovn:
	@scripts/setup.sh test
	$(CARGO) test --locked --release -p tautline --test switch logical_ports_beside -- --ignored --nocapture

## soak: guests, ports, hostile peers, kills and captures at random, for so many SECONDS (an hour): nothing may grow
soak:
	TAUTLINE_SOAK_SECONDS=$(or $(SECONDS),3600) $(CARGO) test --locked --release -p tautline --test switch soak -- --nocapture

## torture-long: COUNT (ten million) hostile messages and ring states that the switch has seen for certain, beside two neighbours at 100,000 frames a second each way
torture-long:
	TAUTLINE_TORTURE_COUNT=$(or $(COUNT),10000000) $(CARGO) test --locked --release -p tautline --test commands millions -- --ignored --nocapture

## torture-peers: the same cases at DPDK's and Open vSwitch's back-ends, SECONDS (20) for each kind; what each did, as a table
torture-peers:
	@scripts/setup.sh test
	$(CARGO) run --locked --release -p tautline --example torture_peers -- $(or $(SECONDS),20)

## test-flows: SETS (2,000) of random flow tables beside Open vSwitch's, with 104 frames each, 10 frames each through the flows of OVN, and 20 whose bytes are compared
test-flows:
	@scripts/setup.sh test
	TAUTLINE_FLOW_TABLES=$(or $(SETS),2000) $(CARGO) test --locked --release -p tautline-flow-tables --test openvswitch -- --nocapture
	TAUTLINE_FLOW_TABLES=$(or $(SETS),2000) $(CARGO) test --locked --release -p tautline-pipeline --test connections_openvswitch -- --nocapture

## test-controllers: a controller that adds FLOWS (10,000,000) flows: memory stays bounded, and the frames of others pass
test-controllers:
	@scripts/setup.sh test
	TAUTLINE_HOSTILE_FLOWS=$(or $(FLOWS),10000000) $(CARGO) test --locked --release -p tautline --test switch a_hostile_controller_takes_neither

## lines: with 1, 2, 4 and 8 queues and workers, 8 on 4 and 4 on 8: the cache lines that two workers write, of which there may be none, and instructions a frame
lines:
	@scripts/setup.sh test
	$(CARGO) test --locked --release -p tautline-switch --test switch lines::with_ -- --ignored --nocapture --test-threads=1
