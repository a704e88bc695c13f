# Commands for contributors and for .ci/run; see CONTRIBUTING.md. Each target creates .venv itself.

# If it were set, each process that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

PY := .venv/bin/python
PYTEST_ARGS ?=
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# More than there are cores: many tests wait for a process or a clock.
WORKERS ?= $(shell echo $$(( $(CORES) + 2 )))
PYTEST := $(PY) -m pytest -q $(PYTEST_ARGS)
PARALLEL := -n $(WORKERS) --dist worksteal
LINT_IMPORTS := $(PY) -c "from importlinter.cli import lint_imports_command as main; main()"
CODE := src tests bench scripts skills optional-skills plugins examples environments \
	batch_runner.py trajectory_compressor.py
# The tests of a ring are chosen by tests/rings.toml. The embedded model needs the cores for itself,
# and other frameworks need large environments of their own.
RING_A := --ring a tests
RING_B := --ring b tests --ignore=tests/model --ignore=tests/adapters
PAGES := $(wildcard scripts/*_reference.py)
COMPILE := $(PY) -m uv pip compile -q --universal --generate-hashes --no-emit-index-url \
	--no-header --no-annotate --python-version 3.11 $(LOCK_ARGS) pyproject.toml

BASE := --extra server --extra email --extra metrics
TESTED := --extra local --extra web --extra telegram --extra discord --extra slack --extra matrix \
	--extra mcp-server

.DEFAULT_GOAL := help
.PHONY: help setup test test-all ring-a ring-b check unit integration doctest test-model \
	adapters model-tasks approvals-report redteam bench tour docs lock fmt clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: ## make or update the development environment
	@sh scripts/setup.sh requirements-dev.lock

test: ## check and the tests of ring A; needs only Python, git and make
	@start=$$(date +%s); \
	$(MAKE) --no-print-directory setup && \
	$(MAKE) --no-print-directory -j2 check ring-a && \
	echo "== make test passed in $$(($$(date +%s) - start)) s"

test-all: ## make test, then ring B and the embedded model
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory ring-b test-model

check: setup ## linters, types, layers, sizes, structure, locks, links, generated pages
	@echo "== check: style"
	@$(PY) -m ruff check -q --output-format concise $(CODE)
	@out=$$($(PY) -m ruff format --check $(CODE)) || { echo "$$out"; exit 1; }
	@echo "== check: types"
	@$(PY) -m mypy --no-error-summary src scripts bench
	@echo "== check: layers"
	@out=$$($(LINT_IMPORTS) 2>&1) || { echo "$$out"; exit 1; }
	@echo "== check: sizes"
	@$(PY) scripts/sizes.py
	@$(PY) scripts/structure.py
	@echo "== check: repository"
	@$(PY) scripts/portable.py
	@$(PY) scripts/locks.py
	@$(PY) scripts/links.py
	@set -e; for page in $(PAGES); do $(PY) $$page --check; done

ring-a: setup ## unit tests, contracts and representative integration tests
	@echo "== tests: ring A"
	@# In a fresh checkout each worker would compile all tests for itself.
	@[ -d tests/__pycache__ ] || $(PYTEST) --collect-only $(RING_A) >/dev/null 2>&1 || true
	@$(PYTEST) $(PARALLEL) $(RING_A)

ring-b: setup ## storms, twins, containers, other platforms, skills, docs, examples
	@echo "== tests: ring B"
	@$(PYTEST) $(PARALLEL) $(RING_B)

unit: setup ## fast tests without processes, loopback only
	@echo "== tests: unit"
	@$(PYTEST) -n $(CORES) --dist worksteal tests/unit

integration: setup ## tests with real processes, terminals and servers, of both rings
	@echo "== tests: integration"
	@$(PYTEST) $(PARALLEL) tests/integration

doctest: setup ## the examples of README.md and docs/
	@echo "== tests: documentation examples"
	@$(PYTEST) tests/docs

test-model: setup ## tasks done by the embedded model (downloads it once)
	@echo "== tests: embedded model"
	@$(PYTEST) tests/model

adapters: setup ## other frameworks run Hermes: verifiers, Harbor, inspect_ai (installs 1.5 GB once)
	@echo "== tests: adapters"
	@$(PYTEST) tests/adapters

model-tasks: setup ## sixty tasks for an embedded model; TASK_ARGS="--model 1.5b --half report"
	@$(PY) -m scripts.model_tasks $(TASK_ARGS)

approvals-report: setup ## how well dangerous and harmless commands are distinguished
	@$(PY) scripts/approvals_report.py $(REPORT_ARGS)
	@echo "== the lines of the hold-out, on which no rule was tuned"
	@$(PY) scripts/approvals_report.py tests/unit/security/holdout

redteam: setup ## attack the agent for real, with each mechanism; prints attacks tried and held
	@$(PY) scripts/redteam_report.py $(REPORT_ARGS)

bench: setup ## measure; options with BENCH_ARGS="--peer VENV"
	@$(PY) -m bench $(BENCH_ARGS)

tour: setup ## walk through the features in a terminal, and record the pictures of the tour
	@$(PY) scripts/record_tour.py

docs: setup ## write the generated reference pages
	@set -e; for page in $(PAGES); do echo "== $$page"; $(PY) $$page; done

lock: setup ## update the lock files from pyproject.toml; LOCK_ARGS=--upgrade for new versions
	@$(COMPILE) $(BASE) -o requirements.lock
	@$(COMPILE) $$($(PY) scripts/locks.py --options) -c requirements.lock -o requirements-extras.lock
	@$(PY) scripts/locks.py --name-extras
	@$(COMPILE) $(BASE) $(TESTED) --group dev -c requirements.lock -c requirements-extras.lock \
		-o requirements-dev.lock
	@$(PY) scripts/locks.py

fmt: setup ## format the code and apply safe fixes
	@$(PY) -m ruff check -q --fix $(CODE) || true
	@$(PY) -m ruff format -q $(CODE)

clean: ## remove the environment and every cache
	@rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache \
		.hypothesis .coverage build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
