# The two commands of the README are `make run` and `make test`; the rest serves them.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: run test build release setup lint deny soak bench fuzz doc clean

# Builds, then converges examples/quickstart in a scratch directory, without root, twice, and shows the graph.
run: build
	@examples/quickstart/try.sh target/debug/zester

build:
	$(CARGO) build --locked --bin zester

release:
	$(CARGO) build --locked --release --bin zester

# Everything that must hold before a change lands.
test: lint deny
	@scripts/test

# Tools and crates that the tests use and a fresh machine may lack.
setup:
	@scripts/setup

lint: setup
	$(CARGO) xtask tidy
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# Licences, sources and bans always; advisories where their database can be reached.
deny: setup
	@scripts/deny

# The long counts: kills, seeds, fuzz minutes. ZESTER_FUZZ_SECONDS sets the time of each fuzz target (600).
soak:
	$(CARGO) run --locked -p zester-sim -- --seeds 10000
	ZESTER_SOAK=1 scripts/test soak
	scripts/fuzz

fuzz:
	scripts/fuzz

# Prints ratios to bare loops measured in the same run, and writes target/bench.json. Beside another version: zester-bench --before BINARY.
bench: release
	$(CARGO) run --locked --release -p zester-bench -- --zester target/release/zester --out target/bench.json

clean:
	$(CARGO) clean
