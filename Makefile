# `make` lists the targets in groups..
SHELL := /bin/bash
.DEFAULT_GOAL := help
# The interpreter of .venv; empty: the newest that fits (deploy/environment.sh).
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
# ranx compiles with numba: keep what it compiled. Threads: one per worker, never all cores in every process.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba
export TOKENIZERS_PARALLELISM := false
# Keep what Python compiled: the tests start hundreds of processes, and collecting them compiles for 10 s.
unexport PYTHONDONTWRITEBYTECODE
# What a person writes behind `make demo` and `make up`.
export ENGINE LEXICAL DENSE SYSTEMS PRECISION SECURE STACK DATASET PIPELINES PRESET QUERIES DEPTH TOP METRICS DEADLINE_MS DAYS KEEP YES

##@ Set up
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Looked at every time, because PYTHON= may name another one and an upgrade of the system may have removed it.
.PHONY: FORCE
$(VENV)/.python: FORCE
	@deploy/environment.sh $(VENV) "$(PYTHON)"

$(VENV)/.installed: pyproject.toml requirements.lock $(VENV)/.python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -o '^uv==[0-9.]*' requirements.lock)"
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes --requirement requirements.lock
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## set up .venv with everything that runs and tests this project [PYTHON=]

.PHONY: lock
# One version of a package for every Python (`fewest`): the newest numpy for each would be another set of figures on each.
RESOLVE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-header --no-annotate --quiet
lock: $(VENV)/.installed ## resolve the newest allowed versions into requirements.lock (and the GPU images' lock)
	$(RESOLVE) --upgrade $(addprefix --extra ,lexical dense sparse late_interaction reranker gateway evaluator cpu models trace local dev) \
		--output-file requirements.lock
	$(RESOLVE) --constraints requirements.lock $(addprefix --extra ,dense sparse late_interaction reranker trace gpu) \
		--output-file deploy/requirements-gpu.lock

.PHONY: models
models: $(VENV)/.installed ## fetch, verify and prepare the default models, or those of MODELS="name ...", in .models/ [PRECISION=]
	@$(BIN)/python -m deploy.models.fetch $(MODELS)

.PHONY: dataset
dataset: $(VENV)/.installed ## fetch a public test collection into .datasets/; without NAME, list them [NAME=scifact]
	@$(BIN)/python -m evaluator datasets $(if $(NAME),fetch $(NAME),list)

.PHONY: browser
browser: ## install Debian's Chromium for the tests of pages, as root, unless there is one [CHROMIUM=]
	@command -v "$${CHROMIUM:-chromium}" || (apt-get update && apt-get install --yes --no-install-recommends chromium fonts-liberation)

.PHONY: prometheus
prometheus: ## install Debian's Prometheus for the tests of alerts, as root, unless there is one
	@command -v promtool || (apt-get update && apt-get install --yes --no-install-recommends prometheus)

##@ Run
.PHONY: demo
demo: $(VENV)/.installed ## measure five pipelines over a collection, with SYSTEMS=paper the BEIR paper's ten systems [DATASET= PIPELINES= PRESET= QUERIES= DEPTH= TOP= METRICS= DEADLINE_MS= PREFER= LEXICAL= DENSE= ENGINE= SYSTEMS= PRECISION= SECURE=]
	@$(BIN)/python -m deploy.local demo

.PHONY: up
up: $(VENV)/.installed ## start every process and serve the collection `demo` [LEXICAL= DENSE= ENGINE= SYSTEMS= PRECISION= SECURE= STACK= GATEWAY_PORT= ...]
	@$(BIN)/python -m deploy.local up

.PHONY: down
down: $(VENV)/.installed ## end what `make up` started; its data stays [STACK=]
	@$(BIN)/python -m deploy.local down

.PHONY: logs
logs: $(VENV)/.installed ## follow the logs of `make up` [STACK=]
	@$(BIN)/python -m deploy.local logs

.PHONY: clean
clean: $(VENV)/.installed ## list old runs and data that no stack needs; YES=1 removes them [DAYS=30 KEEP=10 YES= STACK=: its data]
	@$(BIN)/python -m deploy.local clean

.PHONY: elasticsearch
elasticsearch: $(VENV)/.installed ## start a real Elasticsearch without Docker, print its URL [PORT= SECURE=1]
	@$(BIN)/python -m deploy.elasticsearch start $(if $(PORT),--port $(PORT)) $(if $(SECURE),--secure)

.PHONY: elasticsearch-stop
elasticsearch-stop: $(VENV)/.installed ## end what `make elasticsearch` started
	@$(BIN)/python -m deploy.elasticsearch stop

##@ Test
# What tests expect of figures and names of models is fp32's, on every CPU.
test test-integration test-k8s soak bench-rerank check-extras: export PRECISION := fp32

.PHONY: test
test: models ## run every test that needs no server
	$(BIN)/python -m pytest -m "not integration and not acceptance and not images" -n 3

.PHONY: test-integration
test-integration: models ## run the tests on real servers and processes, which they start and stop [SECURE=1: with TLS and keys]
	$(if $(SECURE),TESTS_SECURE=$(SECURE) )$(BIN)/python -m pytest -m "integration and not alone" -n 2 --dist loadgroup
	$(if $(SECURE),TESTS_SECURE=$(SECURE) )$(BIN)/python -m pytest -m "integration and alone"

.PHONY: test-images
test-images: $(VENV)/.installed ## build every image in a container engine of its own and run them as Compose does; writes docs/soak/images.md [TO=]
	$(BIN)/python -m tests.containers $(if $(TO),--to $(TO))

.PHONY: test-acceptance
test-acceptance: $(VENV)/.installed ## check the figures of the SciFact runs that .ci/run made
	$(BIN)/python -m pytest -m acceptance tests/acceptance

.PHONY: test-k8s
test-k8s: models ## rehearse k8s/ on a cluster of two nodes that it builds and starts, as root; writes docs/soak/kubernetes.md
	$(BIN)/python -m tests.cluster

##@ Measure
.PHONY: soak
soak: models ## run for long under hostile input, faults and kills; writes docs/soak [SOAK="overload ..." SEED=]
	$(BIN)/python -m tests.soak $(SOAK) $(if $(SEED),--seed $(SEED))

PEERS := .cache/peers-venv
UV_PEERS = $(BIN)/uv pip install --python $(PEERS)/bin/python --require-hashes
$(PEERS)/.installed: workshop/bench/peers.txt $(VENV)/.installed
	@echo "Setting up $(PEERS) (once; torch brings 5 GB of CUDA libraries) ..."
	@$(BIN)/python -m venv --clear $(PEERS)
	@$(UV_PEERS) --requirement workshop/bench/peers.txt
	@touch $@

.PHONY: bench-rerank
bench-rerank: models $(PEERS)/.installed ## compare the re-ranker with three libraries, then measure its memory [ROUNDS= LISTS= MAX_TOKENS= INT8= SHAPES=]
	@$(if $(INT8),$(BIN)/python -m deploy.models.fetch $(INT8))
	@$(BIN)/python -m workshop.bench $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(LISTS),--lists $(LISTS)) \
		$(if $(MAX_TOKENS),--max-tokens $(MAX_TOKENS)) $(if $(INT8),--int8 $(INT8))
	@$(BIN)/python -m workshop.bench.memory $(if $(SHAPES),--shapes $(SHAPES)) $(if $(MAX_TOKENS),--max-tokens $(MAX_TOKENS))

# By pip, which knows PIP_NO_INDEX and PIP_FIND_LINKS: such a machine may reach no registry. It needs no .venv.
GPU := .cache/gpu-venv
$(GPU)/.installed: deploy/requirements-gpu.lock
	@deploy/environment.sh $(GPU) "$(PYTHON)"
	@$(GPU)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

.PHONY: bench-gpu
bench-gpu: ## compare models on an NVIDIA GPU with the CPU; writes docs/measurements/gpu.md [MODELS="name ..."]
	@nvidia-smi --list-gpus 2>/dev/null | grep --quiet . \
		|| { echo "bench-gpu: nvidia-smi names no GPU here; run it on a machine with an NVIDIA GPU." >&2; exit 1; }
	@$(MAKE) --silent --no-print-directory $(GPU)/.installed
	@$(GPU)/bin/python -m workshop.bench.gpu $(MODELS)

##@ Check the code
.PHONY: dist
dist: $(VENV)/.installed ## build the Python package for apps, a wheel and an sdist, in OUT [OUT=dist]
	@$(BIN)/uv build --quiet --out-dir $(or $(OUT),dist) clients/python
	@ls $(or $(OUT),dist)/retrieval_client-*

.PHONY: check-extras
check-extras: models ## run each deployable in a clean environment: an undeclared dependency or import fails
	$(BIN)/python -m pytest tests/integration/test_images.py

.PHONY: audit
audit: $(VENV)/.installed ## look up known vulnerabilities of the locked packages [NO_DATA=skip: succeed where the registry has no data]
	@$(BIN)/python -m deploy.audit $(if $(NO_DATA),--no-data $(NO_DATA))

.PHONY: fmt
fmt: $(VENV)/.installed ## format the code and fix what ruff can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: lint
lint: $(VENV)/.installed ## check format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
