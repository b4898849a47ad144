# What a user or a developer types; `make` alone lists it. Whatever takes more than a line of shell lies in .ci/.
export PYTHON ?= python3
BIN := .venv/bin
# Tests mostly wait: four keep two processors busy. CI runs the long ones with two, and so do the fast tests, which do not wait.
PYTEST_ARGS ?= -n $(if $(CI),2,4) --dist loadfile
FAST_PYTEST_ARGS ?= -n 2 --dist loadfile
# Modules that JavaScript test suites require, in .venv, which every sandbox shows to programs.
NODE_MODULES := .venv/share/parley/node_modules/.package-lock.json
BENCHES := bench-night bench-decide bench-scale bench-warehouse bench-sandbox bench-convcode bench-swe bench-talk2code bench-unidial bench-walk references plain
.PHONY: $(BENCHES) help install embeddings inspect telemetry bigcodebench openhands mini-swe-agent bubblewrap demo docs test test-all test-vllm check check-types check-tests crash bench lock clean

help: ## list what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'
	@echo "  make $(BENCHES): CONTRIBUTING.md says what each measures"
install: .venv/.installed $(NODE_MODULES) ## make .venv from requirements.lock, with Parley itself in it (editable)
.venv/.installed: requirements.lock pyproject.toml
	@sh .ci/install.sh
$(NODE_MODULES): $(wildcard sandbox/judging/runners/node/package-lock.json) | .venv/.installed
	@sh .ci/node_modules.sh
embeddings: .venv/.embeddings ## install FlagEmbedding, PyTorch and MiniLM's weights for `--embedder`: 1 GB
inspect: .venv/.inspect ## install Inspect AI, for `parley export inspect`
telemetry: .venv/.telemetry ## install OpenTelemetry's exporter, for nights that send metrics (`parley help telemetry`)
bigcodebench: .venv/.bigcodebench ## install what BigCodeBench's tasks import (Python 3.11): 3 GB
openhands: .venv/.openhands ## install the OpenHands SDK for `--agent openhands` (Python 3.12): 420 MB
mini-swe-agent: .venv/.mini-swe-agent ## install mini-swe-agent for `--agent mini-swe-agent`: 750 MB
.venv/.%: requirements-%.lock | .venv/.installed
	@sh .ci/extra.sh $*
bubblewrap: ## install what the sandbox needs with the system's package manager, where it is missing and allowed
	@sh .ci/bubblewrap.sh
demo: install bubblewrap ## evaluate a small real model and the controls on the bundled sample; ends with a result table
	@$(BIN)/parley demo
docs: install .venv/.docs ## build the documentation into build/docs, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
test: install bubblewrap ## run the tests, without those that take long: some minutes
	$(BIN)/python -m pytest $(PYTEST_ARGS)
test-all: export ALL_TESTS = 1
test-all: test ## run all tests, as continuous integration does
test-vllm: install bubblewrap .vllm/.installed ## run nights on a real vLLM, its build for processors (2 GB): 10 minutes
	$(BIN)/python -m pytest -v -s -m vllm tests/vllm
.vllm/.installed: tests/vllm/prepare.py | .venv/.installed
	@sh .ci/vllm.sh
check: install bubblewrap ## run lint, format, spelling, types, architecture and the fast tests: a minute or two
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/codespell
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-tests
check-types: install ## check types alone
	$(BIN)/pyright
check-tests: install bubblewrap ## run architecture and the fast tests alone
	$(BIN)/python -m pytest $(FAST_PYTEST_ARGS) -m "not slow and not embedded and not docker and not vllm"
crash: install bubblewrap ## kill N nights (N=100, SEED=1) at random moments, and compare each with one that was not killed
	$(BIN)/python -m tests.crash --rounds $(or $(N),100) --seed $(or $(SEED),1)
# `make bench-NAME BENCH_ARGS=…` runs tests/bench/NAME.py; a new one is a name in BENCHES and a line in CONTRIBUTING.md.
bench: install bubblewrap ## measure a night beside a plain loop and other clients: 15 minutes
	for name in throughput judging concurrency_recovery; do $(BIN)/python -m tests.bench.$$name || exit; done
$(BENCHES): install bubblewrap
	$(BIN)/python -m tests.bench.$(@:bench-%=%) $(BENCH_ARGS)
lock: ## write the locks from what is installed in .venv (after an upgrade that passed the tests)
	@sh .ci/lock.sh
clean: ## remove .venv, .vllm, .agents, builds and caches; results (.parley) stay
	find . -name __pycache__ -type d -prune -exec rm -rf {} + ; rm -rf .venv .vllm .agents build dist .*_cache .hypothesis
