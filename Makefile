# The front door. Each target is one line over a preset of CMakePresets.json; CI runs the same.
MAKEFLAGS += --no-print-directory
PRESET ?= dev
BUILD   = build/$(PRESET)
JOBS   ?= $(shell nproc)
# Tests at once: most of them wait more than they compute.
TESTS  ?= $(shell echo $$((2 * $(JOBS))))
RELEASE = release$(if $(KIND),-$(KIND))
CTEST   = ctest --test-dir $(BUILD) --output-on-failure --no-tests=error
HEADERS = $(addprefix include/cairn/,cairn.h cairn_mpi.h cairn_ucx.h)
SOURCES = $(shell git ls-files '*.c' '*.h')

.DEFAULT_GOAL := help
.PHONY: help deps build test test-all demo bench asan tsan fuzz tidy format check-fast install-test \
        install uninstall dist deb docs site clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: # installs what is missing; says nothing when all is there
	@tools/install-deps

build: deps ## configure and compile (PRESET=dev, release, asan, tsan, nompi, mpich)
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)

test: build ## ten minutes of tests on two cores; enumerations strike a sample
	@$(CTEST) -j $(TESTS) -LE slow

test-all: build ## all tests
	@$(CTEST) -j $(TESTS)

demo: ## a simulation is killed and restarted, and compared bit for bit
	@$(MAKE) build PRESET=release
	@examples/demo build/release

bench: ## one benchmark: NAME=capture [QUICK=1]; a table on stderr, JSON lines on stdout
	@$(MAKE) build PRESET=release >&2
	@if [ -x "bench/$(NAME)" ]; then exec bench/$(NAME) build/release $(if $(QUICK),--quick); \
	else exec build/release/bench/$(NAME) $(if $(QUICK),--quick); fi

asan: ## the tests under address and undefined-behaviour sanitizers
	@$(MAKE) test PRESET=asan

tsan: ## the tests without MPI under the thread sanitizer
	@$(MAKE) test PRESET=tsan

fuzz: ## every parser and decoder under libFuzzer (FUZZ_SECONDS=120 each)
	@.ci/run fuzz

tidy: build ## clang-tidy on all sources (FILES= for some)
	@tools/tidy $(BUILD) $(FILES)

format: ## clang-format on all sources
	@clang-format -i $(SOURCES)

check-fast: ## what takes seconds: format, layers, scripts; fit for a pre-commit hook
	@clang-format --dry-run -Werror $(SOURCES)
	@tools/check-layers
	@tools/check-keys
	@tools/check-links
	@[ "$$(tools/api-docs markdown $(HEADERS))" = "$$(cat docs/api.md)" ] || \
	    { echo "docs/api.md is not what the headers say: run make docs" >&2; exit 1; }
	@tools/draw-states --check
	@tools/what-survives --check
	@shellcheck $$(git ls-files | xargs grep -l '^#!/bin/bash')

install-test: build ## builds programs against a staged installation
	@$(CTEST) -L install

install: ## install to PREFIX (/usr/local); KIND=mpich or nompi for another MPI or none
	@$(MAKE) build PRESET=$(RELEASE)
	@cmake --install build/$(RELEASE) --prefix $(or $(PREFIX),/usr/local) >build/$(RELEASE)/install.log
	@echo "$$(wc -l <build/$(RELEASE)/install_manifest.txt) files installed to $(or $(PREFIX),/usr/local)"

uninstall: ## removes what `make install` put there
	@tools/uninstall build/$(RELEASE)/install_manifest.txt

dist: ## cairn-VERSION.tar.gz, a release that builds without git
	@tools/dist

deb: ## Debian packages, in build/deb
	@tools/deb build/deb

docs: build ## writes docs/config.md, docs/commands.md and docs/api.md from the program and the headers
	@$(BUILD)/src/cli/cairn config --doc > docs/config.md
	@$(BUILD)/src/cli/cairn help --doc > docs/commands.md
	@tools/api-docs markdown $(HEADERS) > docs/api.md

site: ## the documentation as pages for a browser, in build/site
	@mkdocs build -q --strict
	@tools/check-site
	@echo build/site/index.html

clean: ## removes all build folders
	@rm -rf build
