# The packet-rate benchmark; included by the Makefile.

.PHONY: bench-peers bench-flows

## bench-peers: the switch beside DPDK's testpmd, OVS-DPDK and the kernel's bridge; QUICK=1 within 5 minutes, all within 25; GATE=FILE: limits
bench-peers: release
	@scripts/setup.sh test
	$(CARGO) build --release --locked -p tautline-bench-peers
	$(dir $(TAUTLINE))bench-peers $(if $(QUICK),--quick) $(if $(GATE),--gate $(GATE)) $(ARGS)

## bench-flows: the switch beside OVS-DPDK with the same flows (FLOWS=FILE: others), 256 source addresses; within 5 minutes
bench-flows: release
	@scripts/setup.sh test
	$(CARGO) build --release --locked -p tautline-bench-peers
	$(dir $(TAUTLINE))bench-peers --quick --flows $(or $(FLOWS),crates/bench-peers/flows.txt) $(ARGS)
