# Commands of the project; `make help` lists them. Each needs only git, make, Python 3.11, a Rust toolchain and a C
# compiler. Everything else is set up in .venv and target/.

PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
# Files with a test that has a mark, so that pytest does not read the others.
marked = $(shell grep -l "mark.$1" tests/*/test_*.py)
# Parallel tests with two processors, because most tests wait. The slice runs SLICE_WORKERS more.
TEST_WORKERS ?= 5
# Tests of the wheel build it with a faster profile, in another folder.
WHEEL_PROFILE ?= release
DIST ?= dist
SLICE_WORKERS ?= 2
SLICE := part-test-slice
# Logs of `make test`, and the failures for scripts/judge-tests. Parts that run in parallel have separate files.
LOGS := build/test
PYTEST = scripts/run-tests $(LOGS)/failures/$@.jsonl $(BIN)/python -m pytest -p no:cacheprovider
JUDGE := $(BIN)/python scripts/judge-tests $(LOGS)
# Seconds of `make test-all` that each `make test` runs.
SLICE_SECONDS ?= 300
# All tests of a run have the same seed. FETCHMILL_SEED=N repeats it.
ifndef FETCHMILL_SEED
export FETCHMILL_SEED := $(shell date +%s)
endif
# With it, each command that a test starts would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE
# Python tests that `make check` runs: some for each command, in a minute.
QUICK := bad_names check cli_surface diff get layers list_command options public_surface serve status stream sync tidy units verify
# `fetchmill bench`, built with the packages of requirements-dev.txt.
BENCH := packages/fetchmill-bench
# Only the plots of one bench need it.
MATPLOTLIB := 3.11.2
UV_VERSION := 0.13.9
NO_ISOLATION := --no-deps --no-build-isolation
# The same interpreter for everything, so that the binding is built once.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

# A single build gains nothing from incremental compilation, nor from more codegen units than processors.
ifdef CI
export CARGO_INCREMENTAL := 0
export CARGO_PROFILE_DEV_CODEGEN_UNITS := 4
export CARGO_PROFILE_DEV_DEBUG := none
endif

.DEFAULT_GOAL := help
.PHONY: help env build build-release examples test test-all check test-long lint lint-python lint-rust format layers servers browser stores
.PHONY: format-rust compile-tests test-rust test-units test-python test-rest test-quick test-timing test-alone test-slice collect wheel wheels sdist demo recording fixtures generated help-texts man clean crash-matrix check-sites contract-million
.PHONY: outages engine-kills engine-libraries hostile-batches contract-pipelined sync-long stray-replies wide-area wide-area-link memory memory-lists lookup stdlib-tests bounded bounded-million ways bench bench-quick bench-s3 bench-sync bench-unchanged bench-faults bench-hung bench-images bench-ray bench-records bench-concurrency bench-report
.PHONY: shared-long docs plan-million hundred-million billion fuzz fuzz-long licences audit asyncio-engine
# Parts of `make test` declare their own dependencies, because a build during tests would replace their package.
ifndef PART
ENV := env
BUILD := build
else
export FETCHMILL_EXAMPLES_BUILT := 1
endif
# Run Clippy's lints during normal compilation. A separate run takes two minutes of processor time.
ifdef LINTED
export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/rustc-with-clippy
endif

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

env: .venv/.stamp ## Check the machine and make .venv

$(BIN)/python: scripts/check-env
	@scripts/check-env $(PYTHON)
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.stamp: requirements-dev.txt $(BENCH)/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements-dev.txt
	$(UV) pip install --quiet --python $(BIN)/python $(NO_ISOLATION) --editable $(BENCH)
	@touch $@

build: $(ENV) ## Build the package for tests, with a fast profile, and install it into .venv
	$(BIN)/maturin develop --quiet

build-release: $(ENV) ## Build the package with the profile of the wheel, for measurements, and install it into .venv
	$(BIN)/maturin develop --release --quiet

# Programs that tests start. They need the features of the whole workspace, or all dependencies would be rebuilt.
examples: | $(BIN)/python
	cargo build --workspace --quiet --examples

test: ## Run the checks for every change in 20 minutes: set-up, build, lints, tests, a slice of test-all (logs in build/test/)
	@rm -rf $(LOGS)
	@echo "seed: FETCHMILL_SEED=$$FETCHMILL_SEED"
	@$(MAKE) --silent --no-print-directory --jobs 4 part-last
	@scripts/part --table
	@$(JUDGE)

test-all: ## Run all tests except test-long: `make test` without its slice, and everything it leaves out, with real commands
	@rm -rf $(LOGS)
	@echo "seed: FETCHMILL_SEED=$$FETCHMILL_SEED"
	@FETCHMILL_REAL_COMMANDS=1 $(MAKE) --silent --no-print-directory --jobs 4 SLICE= part-last-of-all
	@scripts/part --table
	@$(JUDGE)

# The parts of `make test` and their dependencies. Installing overlaps with compiling. Then tests and lints run in
# parallel. Tests that measure times come next, and Rust's tests last. After the slice, tests mostly wait, so Rust's
# tests are compiled meanwhile, at idle priority. Tests that need the whole machine wait for the compiler: even at idle
# priority it made a job take 1.6 times as long.
part-%:
	@scripts/part $* $(MAKE) --no-print-directory PART=1 LINTED=1 $*
part-env part-examples: $(BIN)/python
part-examples: part-format-rust
part-browser: part-servers
part-stdlib-tests: part-env part-browser
part-build: part-env part-examples
part-collect: part-build
part-test-python part-test-slice: part-collect part-servers part-browser part-stdlib-tests
part-lint-python part-layers part-licences: part-collect
part-compile-tests: part-collect
part-test-timing: part-test-python part-lint-python part-layers part-licences
part-test-alone: part-test-timing part-compile-tests
part-test-rust: part-test-alone part-compile-tests
# If the release profile is built, the slice uses it, and so another package than the other tests.
ifeq ($(shell scripts/is-release-built && echo yes),yes)
part-compile-tests: part-test-python
part-test-slice: part-test-alone
part-test-rust: $(SLICE)
else
part-compile-tests part-test-timing: $(SLICE)
endif
part-test-rest: part-test-rust part-stores
# The last parts of `make test` and `make test-all`. The latter has no slice.
part-last: part-test-rust
part-last-of-all: part-test-rest
part-last part-last-of-all:
	@true

check: build ## Run a quick check, two minutes after a build: lints, Rust's unit tests, tests of each command
	@rm -rf $(LOGS)
	@$(MAKE) --silent --no-print-directory --jobs 4 $(addprefix quick-,test-quick lint-python layers test-units lint-rust)
	@scripts/part --table
	@$(JUDGE)

quick-%:
	@scripts/part $* $(MAKE) --no-print-directory PART=1 $*
quick-test-units: quick-lint-rust

test-units: $(ENV)
	cargo test --workspace --quiet --lib

test-quick: $(BUILD)
	$(PYTEST) -n 4 --dist worksteal --suite fast -m "not timing and not alone and not long" $(foreach name,$(QUICK),$(wildcard tests/*/test_$(name).py))

plan-million: build-release servers ## Check that `plan` predicts the time of 1,000,000 objects on three networks (ten minutes; FETCHMILL_SEED repeats the losses)
	$(BIN)/python -m pytest -m long tests/reporting/test_plan.py

test-long: crash-matrix engine-kills engine-libraries hostile-batches contract-pipelined sync-long stray-replies wide-area contract-million plan-million bounded-million shared-long memory memory-lists ## Run the rare and long tests; docs/internals/testing.md has the last results

lint: lint-python lint-rust ## Check lints, formats and types of both languages

lint-python: $(BUILD)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format-rust:
	cargo fmt --all --check

lint-rust: format-rust $(ENV)
	cargo clippy --workspace --all-targets --quiet -- -D warnings

format: env ## Fix the format of the code
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	cargo fmt --all

layers: $(BUILD) ## Check that imports point down
	$(BIN)/python scripts/check-layers
	$(BIN)/python scripts/check-words
	$(BIN)/lint-imports --no-logo --no-cache

licences: $(BUILD) ## Check the licences of all dependencies, without the network
	$(BIN)/python scripts/check-licences
	$(BIN)/python scripts/make-notices --check

audit: env ## Check dependencies with cargo-deny, which is installed into build/ (AUDIT="bans licenses sources" needs no advisories)
	@scripts/audit $(AUDIT)

servers: ## Install the servers, clients and tools that tests run, if they are missing
	@scripts/install-servers

browser: ## Install Chromium if it is missing, for tests of the bench report and of dashboards
	@scripts/install-browser

stores: ## Build versitygw, a third-party S3-compatible store, if it is missing (some minutes; needs Go)
	@scripts/install-versitygw

stdlib-tests: $(ENV) ## Unpack the standard library's own tests into build/ if the interpreter came without them
	@scripts/install-stdlib-tests $(BIN)/python

compile-tests: $(ENV)
	chrt --idle 0 cargo test --workspace --quiet --no-run

# Four at a time, since some wait for a time limit.
test-rust: $(ENV)
	RUST_TEST_THREADS=4 cargo test --workspace --quiet

# Cache the test files that pytest rewrites. Otherwise each of its processes would rewrite them at its start.
collect: $(BUILD)
	$(BIN)/python -m pytest --collect-only -q > /dev/null

# Most tests wait: for a slow server, the start of a process, or the moment to kill one. So they run in parallel.
test-python: $(BUILD)
	$(PYTEST) -n $(TEST_WORKERS) --dist worksteal --suite fast -m "not timing and not alone and not long"

# Tests that assert times mostly wait, and run four at a time.
test-timing: $(BUILD)
	$(PYTEST) -n 4 --dist worksteal --suite fast -m timing $(call marked,timing)

# Tests that assert rates or the use of processors run alone.
test-alone: $(BUILD)
	$(PYTEST) --suite fast -m alone $(call marked,alone)

# As many of the tests that `make test` leaves out as there is time for, other tests with each seed. They use the release
# build of the package, if it exists and is up to date.
test-slice:
	@if scripts/is-release-built; then env -u RUSTC_WORKSPACE_WRAPPER $(BIN)/maturin develop --release --quiet; fi
	$(PYTEST) -n $(SLICE_WORKERS) --dist worksteal --suite rest --seconds $(SLICE_SECONDS) -m "not timing and not alone and not long"
	@if scripts/is-release-built; then $(BIN)/maturin develop --quiet; fi

test-rest: $(BUILD)
	$(PYTEST) -n $(TEST_WORKERS) --dist worksteal --suite rest -m "not timing and not alone and not long"
	$(PYTEST) -n 4 --dist worksteal --suite rest -m timing $(call marked,timing)
	$(PYTEST) --suite rest -m alone $(call marked,alone)

outages: build-release ## Fetch 20,000 objects, 2 % of them broken, with outages of 20 s (FETCHMILL_SEED repeats the order)
	FETCHMILL_OUTAGE_SECONDS=20 FETCHMILL_OUTAGE_OBJECTS=20000 $(BIN)/python -m pytest tests/http/test_outage.py

crash-matrix: build-release servers ## Kill jobs at 700 seeded moments (FETCHMILL_SEED repeats them)
	FETCHMILL_KILLS=500 $(BIN)/python -m pytest tests/durability/test_crash.py

engine-kills: build-release servers ## Test the contract of the engines with 100 kills each instead of 10 (FETCHMILL_SEED repeats them)
	FETCHMILL_ENGINE_KILLS=100 $(BIN)/python -m pytest tests/engines/test_engine_endings.py

engine-libraries: build-release servers ## Run all tests of the engines with the oldest supported versions of their libraries (FETCHMILL_SEED repeats the choices)
	$(BIN)/python -m pytest -m long tests/engines/test_engine_libraries.py

stray-replies: build-release ## Test 100,000 unsolicited replies instead of 2,000 (FETCHMILL_SEED repeats them)
	FETCHMILL_STRAY_REPLIES=100000 $(BIN)/python -m pytest -n 6 --timeout 36000 tests/http/test_certain_replies.py

hostile-batches: build-release ## Test 100,000 pipelined batches of faulty servers instead of 2,000 (FETCHMILL_SEED repeats them)
	FETCHMILL_BATCHES=100000 $(BIN)/python -m pytest -n 8 tests/http/test_pipeline.py

contract-pipelined: build-release servers ## Test the contract of the engines with --pipeline 32, and 50 kills of each format (FETCHMILL_SEED repeats them)
	FETCHMILL_ENGINES=pipelined FETCHMILL_ENGINE_KILLS=50 $(BIN)/python -m pytest -n 2 -m "not timing and not long" \
		tests/engines/test_engine_contract.py tests/engines/test_engine_endings.py tests/http/test_verdict.py tests/http/test_outage.py
	FETCHMILL_PIPELINE_KILLS=50 $(BIN)/python -m pytest -n 2 tests/http/test_pipeline.py -k killed

sync-long: build-release servers ## Sync 20,000 files from four servers, and kill a sync 50 times in each format (FETCHMILL_SEED repeats them)
	FETCHMILL_SYNC_FILES=20000 $(BIN)/python -m pytest -n 2 --timeout 3600 tests/sync/test_sync_servers.py
	FETCHMILL_SYNC_KILLS=50 $(BIN)/python -m pytest -n 2 tests/sync/test_sync_kills.py tests/sync/test_sync_shards.py -k "kill or old_or_new"

wide-area: build-release servers ## Run jobs of all engines over a wide-area network, ten times each, with kills (FETCHMILL_SEED repeats the losses)
	FETCHMILL_WIDE_AREA_ROUNDS=10 $(BIN)/python -m pytest -n 4 tests/project/test_wide_area.py tests/http/test_wide_area_jobs.py

wide-area-link: build-release ## Measure the throughput and the cost of the link of that network (a minute; needs a quiet machine)
	PYTHONPATH=tests $(BIN)/python tests/support/measure_wide_area.py

contract-million: build-release servers ## Test the contract of the sinks with a million objects instead of 20,000
	FETCHMILL_CONTRACT_COUNT=1000000 $(BIN)/python -m pytest tests/formats/test_sink_contract.py

shared-long: build-release servers ## Compare 1,000,000 objects by three machines, a bucket and Ray with one machine; 50 workers; cuts of 30 s (twenty minutes)
	@scripts/install-versitygw
	$(BIN)/python -m pytest -m long -s tests/shared/test_million.py tests/shared/test_long_faults.py

check-sites: build-release ## Check 100,000 sites with known answers, twice, and measure the speed and memory of checks (ten minutes)
	cargo build --release --quiet --workspace --example bare_check
	$(BIN)/python -m own_bench.sites

bounded: build-release ## Compare bounded concurrency with a polling loop, with plain asyncio, and in processes with ProcessPoolExecutor (a minute)
	$(BIN)/python -m own_bench.bounded
	$(BIN)/python -m own_bench.chunks

asyncio-engine: build-release ## Compare the processor time of the engine asyncio with handwritten aiohttp programs (two minutes)
	$(BIN)/python -m own_bench.asyncio_engine

bounded-million: build-release ## Measure the memory of bounded concurrency over a million awaitables (two minutes)
	FETCHMILL_BOUNDED_COUNT=1000000 $(BIN)/python -m pytest tests/bounded/test_bounded_memory.py --timeout 600

ways: build-release ## Compare every published way to fetch in docs/reference/ways-to-fetch.md (an hour; resumes where it was stopped)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check matplotlib==$(MATPLOTLIB)
	$(BIN)/python -m own_bench.ways

memory: build-release ## Measure the growth of memory from one to ten million objects (FORMAT=parquet stores them), and bodies of each size
	$(BIN)/python -m own_bench.memory_growth $(or $(FORMAT),null)
	$(BIN)/python -m own_bench.memory_sizes $(SIZES)

memory-lists: build-release ## Measure memory for lists, generators and endless streams, and the cost of skipping on resume (ten minutes)
	$(BIN)/python -m own_bench.memory_lists

lookup: build-release ## Measure the look-up of a name among ten million; keeps the packs in build/ (11 GB)
	$(BIN)/python -m own_bench.lookup

wheel: env ## Build the abi3 wheel and the wheel of `fetchmill bench` in dist/
	$(BIN)/maturin build --profile $(WHEEL_PROFILE) --quiet --out $(DIST)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check $(NO_ISOLATION) --wheel-dir $(DIST) $(BENCH)

wheels: env ## Build and test the wheels for x86_64, aarch64 and musl in dist/ (an hour; needs Debian)
	$(BIN)/python scripts/build-wheels --profile $(WHEEL_PROFILE) --out $(DIST)

sdist: env ## Build the source distribution in dist/
	$(BIN)/maturin sdist --out $(DIST)

recording: build-release ## Record the first commands of the README in a terminal (docs/plots/demo.svg)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/record-demo

demo: build-release ## Fetch 100,000 objects, kill the job half-way, resume it and verify the result
	$(BIN)/python scripts/demo.py

bench: build-release servers ## Compare with wrk, h2load and nginx for docs/reference/performance.md; needs a quiet machine and two processors
	cargo build --release --quiet --workspace --example bare_files
	$(BIN)/python -m own_bench.run

bench-quick: build-release servers ## Test `make bench` with short runs, without meaningful speeds
	cargo build --release --quiet --workspace --example bare_files
	$(BIN)/python -m own_bench.run --rounds 1 --seconds 1 --files 20000 --replies 20000 --output build/bench-quick.json

bench-s3: build-release ## Compare S3 clients, for the README (ten minutes; ROUNDS=1 COUNT=1000 is quick)
	@mkdir -p build
	$(BIN)/fetchmill bench s3 --only native,s5cmd,obstore,boto3_threads --limit 50 --seconds 60 \
		--count $(or $(COUNT),20000) --repeat $(or $(ROUNDS),5) --json > build/bench-s3.json
	mv build/bench-s3.json packages/fetchmill-bench/own_bench/results/s3.json

bench-faults: build-release ## Measure the cost of server faults, compared with the same server without faults (six minutes; ROUNDS=1 is quick)
	$(BIN)/python -m own_bench.faults --rounds $(or $(ROUNDS),5)

bench-hung: build-release ## Measure the cost of requests that hang, compared with the same server without them (six minutes; ROUNDS=1 is quick)
	$(BIN)/python -m own_bench.hung --rounds $(or $(ROUNDS),3)

bench-unchanged: build-release ## Measure a pass of fetchmill sync over 1,000,000 unchanged objects (two minutes; COUNT=100000 is quick)
	$(BIN)/python -m own_bench.unchanged --count $(or $(COUNT),1000000)

bench-images: build-release servers ## Compare with img2dataset, installed into build/: 20,000 images with captions for webdataset (two minutes; COUNT=1000 is quick)
	$(BIN)/python -m own_bench.images --count $(or $(COUNT),20000)

bench-ray: build-release ## Compare with Ray Data and Daft, installed into build/, in one Ray cluster (ten minutes; COUNT=20000 is quick)
	$(BIN)/python -m own_bench.ray_peers --count $(or $(COUNT),200000)

bench-records: build-release servers examples ## Compare with aiohttp and obstore: 1,000,000 records from WARC files, 50 ms away (seven minutes; FILES=20 is quick)
	@scripts/install-servers nginx
	$(BIN)/python -m own_bench.records --files $(or $(FILES),1000)

bench-sync: build-release servers stores ## Compare fetchmill sync with wget, rclone and s5cmd on the same trees (some minutes; COUNT=2000 is quick)
	@scripts/install-mirrors
	$(BIN)/python -m own_bench.mirrors --count $(or $(COUNT),20000)

bench-concurrency: build-release servers ## Compare --concurrency auto with the best fixed number on 21 networks, with plots (40 minutes; quiet machine)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check matplotlib==$(MATPLOTLIB)
	$(BIN)/python -m own_bench.concurrency

bench-report: ## Write the tables of docs/reference/performance.md and of the README from the last `make bench` and `make bench-s3`
	$(BIN)/python -m own_bench.report

# Client and server have one processor each. With PIN=no they share all processors.
SCALE = $(BIN)/python -m own_bench.scale --format $(or $(FORMAT),null) --pipeline $(or $(PIPELINE),1) $(if $(filter no,$(PIN)),--no-pin)

hundred-million: build-release ## Fetch 100,000,000 objects, killed twice on the way (about a quarter of an hour; FORMAT=parquet stores them; PIPELINE=32)
	$(SCALE) --count 1e8

billion: build-release ## Fetch 1,000,000,000 objects; stop and resume at any time (FORMAT=parquet PIPELINE=32 PIN=no: a quarter of an hour)
	$(SCALE) --count 1e9

fuzz: ## Fuzz the codec, names and S3 pages for 90 seconds; needs a nightly toolchain
	scripts/fuzz 30

fuzz-long: ## Fuzz the codec, names and S3 pages for three hours
	scripts/fuzz 3600

fixtures: build-release ## Make the fixtures of this release in tests/durability/compatibility (two minutes; docs/reference/compatibility.md)
	PYTHONPATH=tests $(BIN)/python tests/support/make_fixtures.py

generated: build ## Rewrite the table of options, its keywords for type checkers, the docstrings of the stub, and the licence notices
	$(BIN)/python scripts/make-options
	$(BIN)/python scripts/make-stub
	$(BIN)/python scripts/make-notices

help-texts: build ## Rewrite the committed help texts and the list of hints
	$(BIN)/python -m pytest -q tests/cli/test_cli_surface.py tests/cli/test_hints.py --update-help

man: build ## Write the manual pages into build/man
	$(BIN)/python scripts/make-man build/man

docs: $(BUILD) ## Build the documentation site into build/site, without the network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## Remove the build output
	rm -rf .venv target dist demo-out
