# The short words; Meson does the building. `make help` lists them.
BUILD ?= build
DATA_DIR ?= ./data
FUZZ_SECONDS ?= 30
PREFIX ?= /usr/local

.PHONY: help setup build run test accept asan fuzz bench soak mutants format install clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: ## install the packages that are missing
	@tools/setup

build: setup ## build build/leased, build/lease and liblease
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --prefix $(PREFIX)
	@ninja -C $(BUILD) leased lease liblease

run: build ## build, then serve on 127.0.0.1:2379 in the foreground
	@exec $(BUILD)/leased --data-dir $(DATA_DIR)

test: ## every test, the last line is the count
	@BUILD=$(BUILD) tools/run-tests

accept: build ## what was promised of one node and of three, line by line, with figures
	@LEASED=$(CURDIR)/$(BUILD)/leased tools/accept $(LINES)

asan: ## the Meson tests under AddressSanitizer and UBSan, in build-asan
	@BUILD=$(BUILD) tools/run-tests --only sanitized

fuzz: ## every fuzz target for FUZZ_SECONDS (30) each
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

bench: build ## measure, side by side with etcd, Redis and ZooKeeper; ARGS=--quick for a short look
	@BUILD=$(BUILD) tools/bench $(ARGS)

soak: build ## run for long under faults
	@tools/soak

mutants: ## take each safety rule away and show the seed of the simulation that tells
	@tools/sim-mutants

format: ## format the C files in place
	@command -v clang-format >/dev/null || tools/setup test
	@git ls-files -z '*.c' '*.h' | xargs -0 -r clang-format -i

install: build ## install under PREFIX (/usr/local) and DESTDIR
	@meson configure $(BUILD) --prefix $(PREFIX)
	@ninja -C $(BUILD) leased lease liblease
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove what was built; data stays
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz
