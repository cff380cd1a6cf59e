# Commands of the project; `make help` lists them. Each needs nothing but git, make, Python 3.11, a Rust toolchain
# and a C compiler: the rest is set up in .venv and target/.

PYTHON ?= python3
BIN := .venv/bin
CARGO_PROFILE := --release
# One interpreter for everything, so that the binding is built once.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

.DEFAULT_GOAL := help
# Two builds at once would only wait for each other's locks.
.NOTPARALLEL:
.PHONY: help env build test lint format layers servers browser stores test-rust test-python wheel demo help-texts clean crash-matrix
.PHONY: check-sites contract-million engine-kills memory memory-lists lookup stdlib-tests bounded bounded-million
.PHONY: ways bench bench-quick bench-report hundred-million billion fuzz fuzz-long

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

env: .venv/.stamp ## Check the machine and make .venv

.venv/.stamp: requirements-dev.txt scripts/check-env
	@scripts/check-env $(PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

build: env ## Build the package and install it into .venv
	PIP_QUIET=1 $(BIN)/maturin develop --release --quiet

test: build servers browser stores stdlib-tests lint layers test-rust test-python ## Everything: set-up, build, lints, layers, all tests

lint: build ## Lints, formats and types, of both languages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(CARGO_PROFILE) --quiet -- -D warnings

format: env ## Mend what the formatters can
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	cargo fmt --all

layers: build ## Check that imports point down
	$(BIN)/python scripts/check-layers
	$(BIN)/lint-imports --no-logo --no-cache

servers: ## Install nginx, wrk, h2load, strace and tar if they are missing
	@scripts/install-servers

browser: ## Install Chromium if it is missing: it opens the report of the bench
	@scripts/install-browser

stores: ## Build versitygw if it is missing: an S3-compatible store that others wrote (some minutes; needs Go)
	@scripts/install-versitygw

stdlib-tests: env ## Unpack the standard library's own tests into build/ if the interpreter came without them
	@scripts/install-stdlib-tests $(BIN)/python

test-rust: env
	cargo test --workspace --exclude fetchmill-python $(CARGO_PROFILE) --quiet

test-python: build
	$(BIN)/python -m pytest

crash-matrix: build servers ## 700 kills at seeded moments (FETCHMILL_SEED repeats them)
	FETCHMILL_KILLS=500 $(BIN)/python -m pytest tests/test_crash.py

engine-kills: build servers ## The contract of the engines with 100 kills each instead of 10 (FETCHMILL_SEED repeats them)
	FETCHMILL_ENGINE_KILLS=100 $(BIN)/python -m pytest tests/test_engine_endings.py

contract-million: build servers ## The contract of the sinks with a million objects instead of 20,000
	FETCHMILL_CONTRACT_COUNT=1000000 $(BIN)/python -m pytest tests/test_sink_contract.py

check-sites: build ## 100,000 sites whose answers are known, twice, and the speed and memory of checks (ten minutes)
	$(BIN)/python -m benches.sites

bounded: build ## The processor time of bounded concurrency beside a loop that polls, and asyncio's own ways (a minute)
	$(BIN)/python -m benches.bounded

bounded-million: build ## The memory of bounded concurrency over a million awaitables (two minutes)
	FETCHMILL_BOUNDED_COUNT=1000000 $(BIN)/python -m pytest tests/test_bounded_memory.py --timeout 600

ways: build ## Every published way to fetch, side by side, into docs/ways-to-fetch.md (an hour; SECONDS_EACH=10 bounds each run)
	@mkdir -p build
	$(BIN)/fetchmill bench --published $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) --json > build/ways.json
	$(BIN)/python -m benches.ways build/ways.json

memory: build ## The growth of memory between one and ten million objects (FORMAT=parquet stores them)
	$(BIN)/python scripts/memory.py $(or $(FORMAT),null)

memory-lists: build ## The same for lists and generators, endless streams, and what skipping on resume costs (ten minutes)
	$(BIN)/python -m benches.memory_lists

lookup: build ## How long one name among ten million takes; keeps the packs in build/ (11 GB)
	$(BIN)/python scripts/lookup.py

wheel: env ## Build the abi3 wheel into dist/
	$(BIN)/maturin build --release --quiet --out dist

demo: build ## Fetch 100,000 objects, killed half-way, resumed, verified
	$(BIN)/python scripts/demo.py

bench: build servers ## Measure beside wrk, h2load and nginx: docs/performance.md; needs a quiet machine and two processors
	cargo build $(CARGO_PROFILE) --quiet -p fetchmill-core --example bare_files
	$(BIN)/python -m benches.run

bench-quick: build servers ## The same with short runs: whether it works, not how fast it is
	cargo build $(CARGO_PROFILE) --quiet -p fetchmill-core --example bare_files
	$(BIN)/python -m benches.run --rounds 1 --seconds 1 --files 20000 --replies 20000 --output build/bench-quick.json

bench-report: ## Write the tables of docs/performance.md and of the README from the last `make bench`
	$(BIN)/python -m benches.report

hundred-million: build ## Fetch 100,000,000 objects, killed twice on the way (about half an hour; FORMAT=parquet stores them)
	$(BIN)/python -m benches.scale --count 1e8 --format $(or $(FORMAT),null)

billion: build ## The same with 1,000,000,000; stop it when you like: the same command goes on
	$(BIN)/python -m benches.scale --count 1e9

fuzz: ## Fuzz the codec, names and pages of S3 for 90 seconds; needs a nightly toolchain
	scripts/fuzz 30

fuzz-long: ## The same for three hours
	scripts/fuzz 3600

help-texts: build ## Write the committed help texts again
	$(BIN)/python -m pytest -q tests/test_cli_surface.py --update-help

clean: ## Remove what was built
	rm -rf .venv target dist demo-out
