# The front door: `make` lists the targets. CI calls only these.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
ifeq (,$(shell command -v $(PYTHON) 2>/dev/null))
PYTHON := python3
endif
VENV := .venv
BIN := $(VENV)/bin
# ranx compiles with numba: keep what it compiled. Threads: one per worker, never all cores in every process.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba
export TOKENIZERS_PARALLELISM := false

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] == (3, 11) else "Python 3.11 is needed, this is %s: set PYTHON=/path/to/python3.11" % sys.version.split()[0])'
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -o '^uv==[0-9.]*' requirements.lock)"
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes --requirement requirements.lock
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## set up .venv with everything that runs and tests this project

.PHONY: lock
lock: $(VENV)/.installed ## resolve the newest allowed versions into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 $(addprefix --extra ,lexical dense reranker gateway evaluator cpu models local dev) \
		--generate-hashes --no-header --no-annotate --upgrade --quiet --output-file requirements.lock
