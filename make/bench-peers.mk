# The packet-rate benchmark; included by the Makefile.

.PHONY: bench-peers bench-flows bench-acl

## bench-peers: the switch beside DPDK's testpmd, OVS-DPDK and the kernel's bridge; QUICK=1 within 5 minutes, all within 25; GATE=FILE: limits
bench-peers: release
	@scripts/setup.sh test
	$(CARGO) build --release --locked -p tautline-bench-peers
	$(dir $(TAUTLINE))bench-peers $(if $(QUICK),--quick) $(if $(GATE),--gate $(GATE)) $(ARGS)

# Flows and the frames for them: one connection, many, more than a cache of packets holds, and none twice.
BENCH_FLOWS = crates/bench-peers/flows
BENCH_RESULTS := bench-results/flows-$(shell date -u +%Y-%m-%dT%H%M%S)
BENCH_TIME ?= 55s
bench_peers = $(dir $(TAUTLINE))bench-peers
bench_flows = $(bench_peers) --quick --rounds 6 --paths packed-in-order --time $(BENCH_TIME) --results $(BENCH_RESULTS) $(ARGS) --flows

## bench-flows: the switch beside OVS-DPDK with the same flows: OVN's for 200 ports, 1, 1,000 and 100,000 active flows, new connections, many masks; and the goals (FLOWS=FILE: others, 256 addresses); within 12 minutes
bench-flows: release
	@scripts/setup.sh test
	$(CARGO) build --release --locked -p tautline-bench-peers
ifdef FLOWS
	$(bench_peers) --quick --flows $(FLOWS) $(ARGS)
else
	mkdir -p $(BENCH_RESULTS)
	$(bench_peers) ovn-flows --stateless $(BENCH_RESULTS)/flows-ovn.txt
	$(bench_peers) ovn-flows $(BENCH_RESULTS)/flows-ovn-ct.txt
	$(bench_flows) $(BENCH_FLOWS).txt --active-flows 1
	$(bench_flows) $(BENCH_FLOWS).txt --active-flows 1000
	$(bench_flows) $(BENCH_FLOWS).txt --active-flows 100000
	$(bench_flows) $(BENCH_RESULTS)/flows-ovn.txt --active-flows 1
	$(bench_flows) $(BENCH_RESULTS)/flows-ovn.txt --active-flows 1000
	$(bench_flows) $(BENCH_RESULTS)/flows-ovn.txt --active-flows 100000
	$(bench_flows) $(BENCH_RESULTS)/flows-ovn-ct.txt --answered
	$(bench_flows) $(BENCH_FLOWS)-ct.txt --answered
	$(bench_flows) $(BENCH_FLOWS)-new.txt --active-flows 10000000
	$(bench_flows) $(BENCH_FLOWS)-new-nat.txt --active-flows 10000000
	$(bench_flows) $(BENCH_FLOWS)-masks.txt --active-flows 1
	$(bench_flows) $(BENCH_FLOWS)-masks.txt --active-flows 100000
	$(bench_peers) goals crates/bench-peers/flow-goals.toml $(BENCH_RESULTS)/*/results-*.json
endif

## bench-acl: a look-up by the classifier alone beside DPDK's, with 100, 1,000 and 10,000 rules, in turns
bench-acl:
	@scripts/setup.sh test
	$(CARGO) run --release --locked -p tautline-flow-tables --example acl
