# A release; included by the Makefile.

.PHONY: dist test-dist

## dist: in dist/, for x86_64 and aarch64: static binary, archive, Debian package, OCI image; checksums
dist:
	@scripts/setup.sh dist
	scripts/dist.sh

## test-dist: makes dist/ and installs and starts each of its files
test-dist:
	@scripts/setup.sh test
	scripts/dist.sh
	scripts/dist-test.sh
