# SPDX-License-Identifier: MIT
#
# The front door: everything a person needs. CMake, Kbuild and QEMU's meson do the work behind it.

# As in the scripts (scripts/lib.sh). A path may have spaces: every use is in quotes.
BUILD  := $(or $(NPU_BUILD),$(CURDIR)/build)
BOARD  ?=
PREFIX ?= /usr/local
# Output of the scripts that is meant for other scripts.
QUIET  := >/dev/null

export CONFIG UNITY

.DEFAULT_GOAL := help
# None of the targets is a file.
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## shows this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## installs the missing packages [SET=sim, board, build, check, full, wheel, package, site]
	@scripts/setup.sh $(SET)

programs: ## libraries, compiler, tools, chip model, Python package: build/bin, build/lib, build/python (3 minutes, once)
	@scripts/setup.sh sim
	@scripts/build.sh programs

build: ## the same and all tests (10 minutes, once) [CONFIG=Debug; UNITY=OFF: each file compiled alone]
	@scripts/setup.sh build
	@scripts/build.sh all

programs-arm64: ## libraries and tools for arm64 boards: build/arm64/bin, build/arm64/lib
	@scripts/build-arm64.sh programs

build-arm64: ## the same and the tests that run on these boards
	@scripts/build-arm64.sh

build-arm64-host: ## libraries, compiler, tools, chip model and tests for arm64 hosts: build/arm64-host
	@scripts/build-arm64.sh --host

test-arm64-host: build-arm64-host ## their unit tests, in qemu-user
	@scripts/build-arm64.sh --test

qemu: ## QEMU 10.0 with the NPU for x86-64 boards, in the cache
	@qemu-device/qemu/build.sh $(QUIET)

qemu-arm64: ## the same for arm64 boards
	@qemu-device/qemu/build.sh aarch64 $(QUIET)

kernel-stock: ## Debian's Linux 6.12 for the emulated board, in the cache
	@scripts/kernel-stock.sh $(QUIET)

kernel-stock-arm64: ## Debian's Linux 6.12 for arm64 boards, in the cache
	@scripts/kernel-stock.sh --arch arm64 $(QUIET)

kernel-debug: ## Linux 6.12 with KASAN and lockdep, in the cache (10 minutes, once)
	@scripts/kernel-debug.sh $(QUIET)

kernel-debug-arm64: ## the same for arm64 boards; PAGES=16K, 64K: with pages of another size
	@scripts/kernel-debug.sh --arch arm64 $(if $(PAGES),--pages $(PAGES)) $(QUIET)

kernel-kcsan: ## Linux 6.12 with KCSAN, which finds data races, and gcov, in the cache (10 minutes, once)
	@scripts/kernel-debug.sh --checker kcsan $(QUIET)

kernel-kcsan-arm64: ## the same for arm64 boards
	@scripts/kernel-debug.sh --checker kcsan --arch arm64 $(QUIET)

kernel-upstream: ## the newest Linux with all patches of kernel/upstream and the driver, in the cache and build/kernel (10 minutes, once)
	@scripts/kernel-upstream.sh $(QUIET)

kernel-newest: ## source of the newest Linux that Debian has, in the cache, to compile the driver against
	@scripts/kernel-newest.sh $(QUIET)

upstream-series: ## fixes of the kernel's core and the driver as mails: build/upstream [FROM='NAME <MAIL>': the sender]
	@scripts/upstream_series.py $(if $(FROM),--from "$(FROM)")

onnxruntime: ## headers and library of ONNX Runtime, in the cache: the next `make build` compiles its plug-in
	@scripts/onnxruntime.sh $(QUIET)
	@[ ! -e "$(BUILD)/build.ninja" ] || [ -e "$(BUILD)/ort/CMakeFiles/qnpu_ep.dir" ] || cmake "$(BUILD)" $(QUIET)

module: ## the driver for the stock kernel: build/kernel/qnpu.ko
	@scripts/module.sh stock

module-arm64: ## the driver for arm64 boards' kernel: build/kernel/arm64/qnpu.ko
	@scripts/module.sh stock-arm64

module-gdb: ## the driver for the stock kernel with debugging information, for npu-vm --gdb: build/kernel/qnpu-gdb.ko
	@scripts/module.sh stock-gdb

module-debug: ## the driver for the debug kernel: build/kernel/qnpu-debug.ko
	@scripts/module.sh debug

module-debug-arm64: ## the same for arm64 boards: build/kernel/arm64/qnpu-debug.ko; PAGES=16K, 64K
	@scripts/module.sh debug$(if $(PAGES),-$(PAGES))-arm64

module-kcsan: ## the driver for the kernel with KCSAN, instrumented: build/kernel/qnpu-kcsan.ko
	@scripts/module.sh kcsan

module-kcsan-arm64: ## the same for arm64 boards: build/kernel/arm64/qnpu-kcsan.ko
	@scripts/module.sh kcsan-arm64

module-gcov: ## the driver for that kernel, with counters of executed lines: build/kernel/qnpu-gcov.ko
	@scripts/module.sh gcov

module-gcov-arm64: ## the same for arm64 boards: build/kernel/arm64/qnpu-gcov.ko
	@scripts/module.sh gcov-arm64

demo: ## reads handwritten digits on the NPU of an emulated board [BOARD=pc|virt|soc; sim: in the process; TIME=exact]
	@scripts/demo.sh $(or $(BOARD),pc) $(if $(TIME),--time $(TIME))

quick: ## builds, and runs the unit tests of what changed (since the last commit, or SINCE=COMMIT)
	@scripts/check.py quick --since "$(SINCE)"

test: ## runs one test, wherever it is, and builds what it needs: T=NAME or a part of it [BOARD=stock|debug|iommu|virt|soc]
	@scripts/test.py "$(T)" $(BOARD)

check: ## builds, and runs the tests that find most (a quarter of an hour when built) [ALL=1: also those that are unchanged]
	@scripts/setup.sh check
	@scripts/check.py check $(if $(ALL),--all)

check-full: ## all tests: sanitizers, debug kernels, arm64 boards, packages (hours) [ALL=1; SAMPLE=0..9 of what is sampled]
	@scripts/setup.sh full
	@$(if $(SAMPLE),NPU_SAMPLE=$(SAMPLE)) scripts/check.py full $(if $(ALL),--all)

ci: ## make check, and as much of make check-full as fits into MINUTES (60); says what was left out
	@scripts/setup.sh full
	@scripts/check.py ci --minutes $(or $(MINUTES),60)

nightly: ## a day: all rounds, whole fault injection, mutants, and each fuzzer for MINUTES (60); samples by date
	@scripts/setup.sh full
	@MINUTES=$(MINUTES) $(if $(SAMPLE),NPU_SAMPLE=$(SAMPLE)) scripts/check.py nightly

format: ## formats the C++ and C sources that clang-format is for
	@scripts/format.sh

hooks: ## lets git run the quick static checks before each commit in this checkout
	@git config core.hooksPath scripts/hooks

bench: build qemu kernel-stock module build-arm64 kernel-stock-arm64 module-arm64 ## instructions and time of jobs, copies, launches against recorded ones; host times in pairs, inferences too
	@tests/bench/counts.py && tests/bench/counts.py --board soc; status=$$?; tests/bench/pairs.py && tests/bench/networks.py && exit $$status

bench-accept: build qemu kernel-stock module build-arm64 kernel-stock-arm64 module-arm64 ## records what the instructions and times of `make bench` are now (say why in the commit)
	@tests/bench/counts.py --accept
	@tests/bench/counts.py --board soc --accept

fuzz-kernel: build ## fuzzes the driver under KASAN and lockdep, SECONDS=600 [SEED=number]
	@tests/fuzz/kernel/run.sh $(or $(SECONDS),600) $(or $(SEED),-)

coverage: build qemu kernel-kcsan module-gcov ## lines, branches and functions of the driver that the suites execute: build/coverage [RUNS='coverage coverage-soc']
	@scripts/setup.sh full
	@scripts/coverage.py $(RUNS)

explore: build qemu module $(if $(filter debug,$(KERNEL)),module-debug) ## looks for races on exact boards, one seed after another [SECONDS=600 SUITE=a,b TEST=pattern ROUNDS=1 KERNEL=debug SEED=first]
	@scripts/explore.py --seconds $(or $(SECONDS),600) --kernel $(or $(KERNEL),stock) --first $(or $(SEED),1) \
		--rounds $(or $(ROUNDS),1) $(if $(SUITE),--suite $(SUITE)) $(if $(TEST),--test '$(TEST)')

conformance: build ## ONNX's own tests: compiled and right, or refused and why [LIST=FILE.tsv: only those; SUITE=newest: the newest that Debian has]
	@tests/conformance/conformance.py "$(BUILD)/bin/npu_conformance_test" $(if $(SUITE),--suite "$(SUITE)") $(if $(LIST),--list "$(LIST)")

dist: ## what is released, from the last commit: build/dist/qnpu-VERSION.tar.xz
	@scripts/dist.sh $(QUIET)

deb: ## Debian packages of the last commit: build/deb
	@scripts/setup.sh package
	@scripts/deb.sh $(QUIET)

site: ## the documentation as a searchable site: build/site/index.html
	@scripts/setup.sh site
	@scripts/site.py

wheel: ## a self-contained wheel of the last commit, for this system's Python: build/wheel
	@scripts/setup.sh wheel
	@scripts/wheel.sh

image: programs qemu kernel-stock module ## a system with the packages and the emulated board: build/image
	@scripts/setup.sh package
	@scripts/image.sh

release: ## all files of a release of the last commit: build/release [PART=...; scripts/release.sh --list names them]
	@scripts/setup.sh package board
	@scripts/release.sh $(PART) $(QUIET)

install: ## installs into $(DESTDIR)$(PREFIX) (PREFIX: /usr/local): libraries, headers, tools, manual pages
	@scripts/setup.sh sim
	@scripts/build.sh programs extras
	@DESTDIR="$(DESTDIR)" cmake --install "$(BUILD)" --prefix "$(PREFIX)" $(QUIET)

clean: ## removes what was built here; the cache stays
	rm -rf "$(BUILD)" "$(BUILD)-asan" "$(BUILD)-tsan"
