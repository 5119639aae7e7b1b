# Cross-checks of the network work; included by the Makefile.

.PHONY: check-net

## check-net: TCP_STREAM beside iperf3 and UDP_RR beside sockperf on veth, exit code 1 beyond 15 %; the host beside itself, and beside itself slowed by a tenth
check-net:
	@scripts/setup.sh test
	$(CARGO) run --release --locked -p tautline --example check_net
	$(CARGO) test --locked --release -p tautline --test commands network_honest:: -- --ignored --nocapture --test-threads 1
