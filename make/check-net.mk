# Cross-checks of the network work; included by the Makefile.

.PHONY: check-net

## check-net: TCP_STREAM beside iperf3 and UDP_RR beside sockperf on veth, in alternation; exit code 1 beyond 15 %
check-net:
	@scripts/setup.sh test
	$(CARGO) run --release --locked -p tautline --example check_net
