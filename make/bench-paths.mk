# What packets on the paths into a guest take; included by the Makefile.

.PHONY: bench-paths

## bench-paths: exits, transitions and instructions per packet of each path into a guest, in two boots of the nested machine
bench-paths: release
	@scripts/setup.sh test
	$(CARGO) run --quiet --release --locked -p tautline --example bench_paths -- $(TAUTLINE) --output bench-results/$(shell date -u +%F)-paths.json $(if $(GATE),--gate $(GATE)) $(ARGS)
