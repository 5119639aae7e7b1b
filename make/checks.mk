# What `make test` builds and checks before it runs anything; included by the Makefile. Each build ends with one large
# crate on one core, so `make -j2 checks` runs two at a time. cargo shares make's job slots (hence the +).

.PHONY: lint-workflows checks check-lints check-tests check-foreign instruction-limits report-shapes

## checks: lints, all tests built, the sources checked for the other processor
checks: check-tests check-foreign

check-lints:
	+scripts/lints.sh

# After the lints: both write into one folder of cargo's.
check-tests: check-lints
	+$(CARGO) test --locked --workspace --no-run

# Types and borrows alone; the long tier builds and runs.
check-foreign:
	+scripts/check-foreign.sh

## instruction-limits: limits of instructions for a buffer of a queue, a frame from guest to guest, and where a frame goes
instruction-limits:
	$(CARGO) run --release --locked -p tautline-virtqueue --example bench gate
	$(CARGO) run --release --locked -p tautline-port --example forward gate
	$(CARGO) run --release --locked -p tautline-pipeline --example decide gate

## report-shapes: results files with each value changed in each way, drawn or refused; `make test` changes each in one way
report-shapes:
	TAUTLINE_ALL_SHAPES=1 $(CARGO) test --locked -p tautline --test commands a_results_file_of_any_shape

## lint-workflows: actionlint over .github/workflows
lint-workflows:
	scripts/workflows.sh
