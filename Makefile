# Commands of the project; `make help` lists them. Each needs nothing but git, make, Python 3.11, a Rust toolchain
# and a C compiler: the rest is set up in .venv and target/.

PYTHON ?= python3
BIN := .venv/bin
CARGO_PROFILE := --release
# Tests at a time, with two processors.
TEST_WORKERS ?= 6
# Unit tests, whose crate takes seven minutes of processor time to optimise and one as it is written; and those that use
# a crate from outside, as it is in the package.
TEST_UNITS := cargo test --workspace $(CARGO_PROFILE) --quiet --lib --config profile.release.package.fetchmill-core.opt-level=0
TEST_CRATES := cargo test --workspace $(CARGO_PROFILE) --quiet --test '*'
# Tests of Python that `make check` runs: of each command some, in a minute.
QUICK := bad_names check cli_surface diff get layers list_command options public_surface serve status stream sync tidy units verify
# `fetchmill bench`, built with what requirements-dev.txt has installed.
BENCH := packages/fetchmill-bench
# Draws the plots of one bench: nothing else needs it.
MATPLOTLIB := 3.11.2
NO_ISOLATION := --no-deps --no-build-isolation
# One interpreter for everything, so that the binding is built once.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help env build examples test-binaries test check test-long lint lint-python lint-rust format layers servers browser stores
.PHONY: test-rust test-units test-python test-quick test-timing wheel demo fixtures help-texts clean crash-matrix check-sites contract-million
.PHONY: outages engine-kills hostile-batches contract-pipelined sync-long stray-replies wide-area wide-area-link memory memory-lists lookup stdlib-tests bounded bounded-million ways bench bench-quick bench-s3 bench-sync bench-unchanged bench-faults bench-images bench-records bench-concurrency bench-report
.PHONY: plan-million hundred-million billion fuzz fuzz-long licences audit asyncio-engine
# Parts of `make test` say what they need themselves: a build while tests run would exchange the package under them.
ifndef PART
ENV := env
BUILD := build
else
export FETCHMILL_EXAMPLES_BUILT := 1
endif

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

env: .venv/.stamp ## Check the machine and make .venv

.venv/.stamp: requirements-dev.txt scripts/check-env $(BENCH)/pyproject.toml
	@scripts/check-env $(PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(NO_ISOLATION) --editable $(BENCH)
	@touch $@

build: $(ENV) ## Build the package and install it into .venv
	PIP_QUIET=1 $(BIN)/maturin develop --release --quiet

# With the whole workspace's features, as the tests have them: what both need is built once.
examples:
	cargo build --workspace --examples $(CARGO_PROFILE) --quiet

test-binaries:
	$(TEST_UNITS) --no-run
	$(TEST_CRATES) --no-run

test: ## Everything: set-up, build, lints, layers, all tests, and how long each took (logs are in build/test/)
	@rm -rf build/test
	@$(MAKE) --silent --no-print-directory --jobs 4 part-test-timing
	@scripts/part --table

# The parts of `make test` and what each waits for: two processors are busy all the time, installing and waiting
# overlap with compiling. What compiles with cargo is in a row: it would wait for cargo's lock anyway.
part-%:
	@scripts/part $* $(MAKE) --no-print-directory PART=1 $*
part-browser: part-servers
part-stdlib-tests: part-env part-browser
part-build: part-env part-examples
part-lint-python part-layers part-licences: part-build
part-test-binaries: part-build
part-lint-rust: part-test-binaries
part-test-python: part-build part-servers part-browser part-stores part-stdlib-tests
# What measures is alone.
part-test-rust: part-test-python part-lint-rust part-lint-python part-layers part-licences
part-test-timing: part-test-rust

check: build ## A first answer, three minutes after a build: lints, Rust's unit tests, tests of each command
	@rm -rf build/test
	@$(MAKE) --silent --no-print-directory --jobs 4 $(addprefix quick-,test-quick lint-python layers test-units lint-rust)
	@scripts/part --table

quick-%:
	@scripts/part $* $(MAKE) --no-print-directory PART=1 $*
quick-lint-rust: quick-test-units

test-units: $(ENV)
	$(TEST_UNITS)

test-quick: $(BUILD)
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not timing and not long" $(QUICK:%=tests/test_%.py)

plan-million: build servers ## Whether `plan` predicts the time of 1,000,000 objects on three networks (ten minutes; FETCHMILL_SEED repeats what gets lost)
	$(BIN)/python -m pytest -m long tests/test_plan.py

test-long: crash-matrix engine-kills hostile-batches contract-pipelined sync-long stray-replies wide-area contract-million plan-million bounded-million memory memory-lists ## What is rare or long: docs/testing.md has the last results

lint: lint-python lint-rust ## Lints, formats and types, of both languages

lint-python: $(BUILD)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lint-rust: $(ENV)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(CARGO_PROFILE) --quiet -- -D warnings

format: env ## Mend what the formatters can
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	cargo fmt --all

layers: $(BUILD) ## Check that imports point down
	$(BIN)/python scripts/check-layers
	$(BIN)/python scripts/check-words
	$(BIN)/lint-imports --no-logo --no-cache

licences: $(BUILD) ## Check the licences of all dependencies, without the network
	$(BIN)/python scripts/check-licences

audit: env ## Check dependencies with cargo-deny, which is installed into build/ (AUDIT="bans licenses sources" needs no advisories)
	@scripts/audit $(AUDIT)

servers: ## Install nginx, lighttpd, wrk, h2load, strace, tar and ip if they are missing
	@scripts/install-servers

browser: ## Install Chromium if it is missing: it opens the report of the bench, and dashboards
	@scripts/install-browser

stores: ## Build versitygw if it is missing: an S3-compatible store that others wrote (some minutes; needs Go)
	@scripts/install-versitygw

stdlib-tests: $(ENV) ## Unpack the standard library's own tests into build/ if the interpreter came without them
	@scripts/install-stdlib-tests $(BIN)/python

test-rust: $(ENV)
	$(TEST_UNITS)
	$(TEST_CRATES)

# Most tests wait: for a server that is slow, a process that starts, a moment to kill one. So they run side by side.
test-python: $(BUILD)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m "not timing and not long"

# Those that measure run alone, and last.
test-timing: $(BUILD)
	$(BIN)/python -m pytest -m timing

outages: build ## 20,000 objects, 2 % of them broken, with outages of 20 s (FETCHMILL_SEED repeats the order)
	FETCHMILL_OUTAGE_SECONDS=20 FETCHMILL_OUTAGE_OBJECTS=20000 $(BIN)/python -m pytest tests/test_outage.py

crash-matrix: build servers ## 700 kills at seeded moments (FETCHMILL_SEED repeats them)
	FETCHMILL_KILLS=500 $(BIN)/python -m pytest tests/test_crash.py

engine-kills: build servers ## The contract of the engines with 100 kills each instead of 10 (FETCHMILL_SEED repeats them)
	FETCHMILL_ENGINE_KILLS=100 $(BIN)/python -m pytest tests/test_engine_endings.py

stray-replies: build ## 100,000 replies that nobody asked for instead of 2,000 (FETCHMILL_SEED repeats them)
	FETCHMILL_STRAY_REPLIES=100000 $(BIN)/python -m pytest -n 6 --timeout 36000 tests/test_certain_replies.py

hostile-batches: build ## 100,000 pipelined batches of servers that do it badly instead of 2,000 (FETCHMILL_SEED repeats them)
	FETCHMILL_BATCHES=100000 $(BIN)/python -m pytest -n 8 tests/test_pipeline.py

contract-pipelined: build servers ## The contract of the engines with --pipeline 32, and 50 kills of each format (FETCHMILL_SEED repeats them)
	FETCHMILL_ENGINES=pipelined FETCHMILL_ENGINE_KILLS=50 $(BIN)/python -m pytest -n 2 -m "not timing and not long" \
		tests/test_engine_contract.py tests/test_engine_endings.py tests/test_verdict.py tests/test_outage.py
	FETCHMILL_PIPELINE_KILLS=50 $(BIN)/python -m pytest -n 2 tests/test_pipeline.py -k killed

sync-long: build servers ## Syncs of 20,000 files behind four servers, and 50 kills of a sync in each format (FETCHMILL_SEED repeats them)
	FETCHMILL_SYNC_FILES=20000 $(BIN)/python -m pytest -n 2 --timeout 3600 tests/test_sync_servers.py
	FETCHMILL_SYNC_KILLS=50 $(BIN)/python -m pytest -n 2 tests/test_sync_kills.py tests/test_sync_shards.py -k "killed or old_or_new"

wide-area: build servers ## Jobs over a wide-area network, killed on the way, ten times each, by all engines (FETCHMILL_SEED repeats what gets lost)
	FETCHMILL_WIDE_AREA_ROUNDS=10 $(BIN)/python -m pytest -n 4 tests/test_wide_area.py tests/test_wide_area_jobs.py

wide-area-link: build ## What the link of that network carries, and what it costs (a minute; needs a quiet machine)
	$(BIN)/python tests/measure_wide_area.py

contract-million: build servers ## The contract of the sinks with a million objects instead of 20,000
	FETCHMILL_CONTRACT_COUNT=1000000 $(BIN)/python -m pytest tests/test_sink_contract.py

check-sites: build ## 100,000 sites whose answers are known, twice, and the speed and memory of checks (ten minutes)
	cargo build $(CARGO_PROFILE) --quiet --workspace --example bare_check
	$(BIN)/python -m benches.sites

bounded: build ## The processor time of bounded concurrency beside a loop that polls, and asyncio's own ways (a minute)
	$(BIN)/python -m benches.bounded

asyncio-engine: build ## The processor time of the engine asyncio beside programs written by hand with aiohttp (two minutes)
	$(BIN)/python -m benches.asyncio_engine

bounded-million: build ## The memory of bounded concurrency over a million awaitables (two minutes)
	FETCHMILL_BOUNDED_COUNT=1000000 $(BIN)/python -m pytest tests/test_bounded_memory.py --timeout 600

ways: build ## Every published way to fetch, side by side, into docs/ways-to-fetch.md (an hour; goes on where it was stopped)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check matplotlib==$(MATPLOTLIB)
	$(BIN)/python -m benches.ways

memory: build ## The growth of memory between one and ten million objects (FORMAT=parquet stores them), and bodies of each size
	$(BIN)/python scripts/memory.py $(or $(FORMAT),null)
	$(BIN)/python scripts/memory_sizes.py $(SIZES)

memory-lists: build ## The same for lists and generators, endless streams, and what skipping on resume costs (ten minutes)
	$(BIN)/python -m benches.memory_lists

lookup: build ## How long one name among ten million takes; keeps the packs in build/ (11 GB)
	$(BIN)/python scripts/lookup.py

wheel: env ## Build the abi3 wheel and that of `fetchmill bench` into dist/
	$(BIN)/maturin build --release --quiet --out dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check $(NO_ISOLATION) --wheel-dir dist $(BENCH)

demo: build ## Fetch 100,000 objects, killed half-way, resumed, verified
	$(BIN)/python scripts/demo.py

bench: build servers ## Measure beside wrk, h2load and nginx: docs/performance.md; needs a quiet machine and two processors
	cargo build $(CARGO_PROFILE) --quiet --workspace --example bare_files
	$(BIN)/python -m benches.run

bench-quick: build servers ## The same with short runs: whether it works, not how fast it is
	cargo build $(CARGO_PROFILE) --quiet --workspace --example bare_files
	$(BIN)/python -m benches.run --rounds 1 --seconds 1 --files 20000 --replies 20000 --output build/bench-quick.json

bench-s3: build ## Measure clients of S3 side by side, for the README (ten minutes; ROUNDS=1 COUNT=1000 is quick)
	@mkdir -p build
	$(BIN)/fetchmill bench s3 --only native,s5cmd,obstore,boto3_threads --limit 50 --seconds 60 \
		--count $(or $(COUNT),20000) --repeat $(or $(ROUNDS),5) --json > build/bench-s3.json
	mv build/bench-s3.json benches/results/s3.json

bench-faults: build ## What faults of a server cost, beside the same server without (six minutes; ROUNDS=1 is quick)
	$(BIN)/python -m benches.faults --rounds $(or $(ROUNDS),5)

bench-unchanged: build ## A pass of fetchmill sync over 1,000,000 objects that have not changed (two minutes; COUNT=100000 is quick)
	$(BIN)/python -m benches.unchanged --count $(or $(COUNT),1000000)

bench-images: build servers ## 20,000 images of a list with captions for webdataset, beside img2dataset, which is installed into build/ (two minutes; COUNT=1000 is quick)
	$(BIN)/python -m benches.images --count $(or $(COUNT),20000)

bench-records: build servers examples ## 1,000,000 records out of WARC files that are 50 ms away, beside aiohttp and obstore (seven minutes; FILES=20 is quick)
	@scripts/install-servers nginx
	$(BIN)/python -m benches.records --files $(or $(FILES),1000)

bench-sync: build servers stores ## fetchmill sync beside wget, rclone and s5cmd on the same trees (some minutes; COUNT=2000 is quick)
	@scripts/install-mirrors
	$(BIN)/python -m benches.mirrors --count $(or $(COUNT),20000)

bench-concurrency: build servers ## What --concurrency auto reaches of the best fixed number, on 21 networks, with plots (40 minutes; quiet machine)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check matplotlib==$(MATPLOTLIB)
	$(BIN)/python -m benches.concurrency

bench-report: ## Write the tables of docs/performance.md and of the README from the last `make bench` and `make bench-s3`
	$(BIN)/python -m benches.report

# Client and server have a processor each; with PIN=no they share all of them.
SCALE = $(BIN)/python -m benches.scale --format $(or $(FORMAT),null) --pipeline $(or $(PIPELINE),1) $(if $(filter no,$(PIN)),--no-pin)

hundred-million: build ## Fetch 100,000,000 objects, killed twice on the way (about a quarter of an hour; FORMAT=parquet stores them; PIPELINE=32)
	$(SCALE) --count 1e8

billion: build ## The same with 1,000,000,000; stop it when you like: the same command goes on (FORMAT=parquet PIPELINE=32 PIN=no: a quarter of an hour)
	$(SCALE) --count 1e9

fuzz: ## Fuzz the codec, names and pages of S3 for 90 seconds; needs a nightly toolchain
	scripts/fuzz 30

fuzz-long: ## The same for three hours
	scripts/fuzz 3600

fixtures: build ## Make the fixtures of this release in tests/compatibility (two minutes; docs/compatibility.md)
	$(BIN)/python tests/make_fixtures.py

help-texts: build ## Write the committed help texts again
	$(BIN)/python -m pytest -q tests/test_cli_surface.py --update-help

clean: ## Remove what was built
	rm -rf .venv target dist demo-out
