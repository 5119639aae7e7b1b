# The documentation as a site; included by the Makefile.

.PHONY: docs

## docs: all pages as a site in target/docs/book, by mdBook, and every link in it followed
docs:
	@command -v mdbook >/dev/null || { \
	    echo 'making the site: mdbook is not installed; cargo install mdbook@0.5.4 --locked --no-default-features --features search' >&2; exit 1; }
	python3 scripts/docs.py mdbook
