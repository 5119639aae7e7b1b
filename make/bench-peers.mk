# The packet-rate benchmark; included by the Makefile.

.PHONY: bench-peers bench-flows bench-acl

## bench-peers: the switch beside DPDK's testpmd, OVS-DPDK and the kernel's bridge; QUICK=1 within 5 minutes, all within 25; GATE=FILE: limits
bench-peers: release
	@scripts/setup.sh test
	$(CARGO) build --release --locked -p tautline-bench-peers
	$(dir $(TAUTLINE))bench-peers $(if $(QUICK),--quick) $(if $(GATE),--gate $(GATE)) $(ARGS)

# Flows and the frames for them: one connection, many, and more than a cache of packets holds.
BENCH_FLOWS = crates/bench-peers/flows
bench_flows = $(dir $(TAUTLINE))bench-peers --quick --rounds 6 --paths packed-in-order --time 55s --flows

## bench-flows: the switch beside OVS-DPDK with the same flows: 1, 1,000 and 100,000 active flows, connections, many masks (FLOWS=FILE: others, 256 addresses); within 5 minutes
bench-flows: release
	@scripts/setup.sh test
	$(CARGO) build --release --locked -p tautline-bench-peers
ifdef FLOWS
	$(dir $(TAUTLINE))bench-peers --quick --flows $(FLOWS) $(ARGS)
else
	$(bench_flows) $(BENCH_FLOWS).txt --active-flows 1 $(ARGS)
	$(bench_flows) $(BENCH_FLOWS).txt --active-flows 1000 $(ARGS)
	$(bench_flows) $(BENCH_FLOWS).txt --active-flows 100000 $(ARGS)
	$(bench_flows) $(BENCH_FLOWS)-ct.txt --answered $(ARGS)
	$(bench_flows) $(BENCH_FLOWS)-masks.txt --active-flows 100000 $(ARGS)
endif

## bench-acl: a look-up by the classifier alone beside DPDK's, with 100, 1,000 and 10,000 rules, in turns
bench-acl:
	@scripts/setup.sh test
	$(CARGO) run --release --locked -p tautline-flow-tables --example acl
