# The documentation as a site; included by the Makefile.

.PHONY: docs page-runs

## docs: all pages as a site in target/docs/book, by mdBook, and every link in it followed
docs:
	@command -v mdbook >/dev/null || { \
	    echo 'making the site: mdbook is not installed; cargo install mdbook@0.5.4 --locked --no-default-features --features search' >&2; exit 1; }
	python3 scripts/docs.py mdbook

## page-runs: the runs whose figures the pages have, kept in bench-results/pages (RUNS="tti upgrade": some of them); an hour, on a quiet machine
page-runs: release
	@scripts/setup.sh test
	scripts/page-runs.py run $(RUNS)
