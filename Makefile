# Two commands to begin with: `make run` and `make test`.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := build/digits

# The one place for versions is docker-bake.hcl; this machine's venv follows it.
TORCH := $(shell sed -nE 's/.*flavour = "cpu", .*build = "([^"]+)".*/\1/p' docker-bake.hcl | head -n 1)
NUMPY := $(shell sed -nE 's/^ *numpy *= "([^"]+)"/\1/p' docker-bake.hcl)
# PyPI's own torch is a CUDA build of several GB. A folder of wheels (PIP_FIND_LINKS) needs no index.
TORCH_INDEX ?= $(if $(PIP_FIND_LINKS),,https://download.pytorch.org/whl/cpu)
# Twice quiet: a machine with several indexes gets a warning a package otherwise.
PIP := $(BIN)/pip install --quiet --quiet --disable-pip-version-check

# Tests mostly wait, for containers and for ranks that end. More workers than two make them wait for each other.
WORKERS ?= 2
# What `make test` builds before it tests.
IMAGES := images-test

.DEFAULT_GOAL := help
.PHONY: help run test test-full lint format images images-gpu images-test bench reference engine venv dev clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | column -t -s '|'

run: venv $(DATA)/digits.npz ## Train the digits example on 2 hosts x 2 ranks of this machine, without Docker
	$(BIN)/muster local examples/digits_ddp.py --hosts 2 --nproc 2 --channel training=$(DATA)

test: dev lint ## Engine, images and every test; tests that need what is missing here are named as skipped
	@if scripts/engine; then $(MAKE) --no-print-directory $(IMAGES); \
	 else echo "no Docker engine: the tests that need one are skipped, see below"; fi
	$(BIN)/pytest -n $(WORKERS) $(PYTEST)

test-full: ## The same with the GPU images, many more generated inputs, and every fault of a host under every launcher
	MUSTER_TEST_FULL=1 $(MAKE) test IMAGES="images-test images-gpu" PYTEST="--hypothesis-profile=full $(PYTEST)"

lint: dev ## Style, types, the direction of imports, Dockerfiles, shell, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=entrypoint/src:nccl-tests/src $(BIN)/lint-imports
	$(BIN)/hadolint tests/*/*/Dockerfile images/*/Dockerfile examples/*/Dockerfile scripts/tooling/bench/*/Dockerfile
	$(BIN)/shellcheck .ci/run scripts/tooling/efa/efa_installer.sh
	$(BIN)/zizmor --offline --quiet .github

format: dev ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

images: ## Build the CPU images of this commit
	scripts/images build cpu

images-gpu: ## Build the GPU images; neither a GPU nor CUDA is needed for that
	scripts/images build gpu

# Beside them, where a stand-in base was used, the same on a look-alike of the default base.
images-test:
	scripts/images build cpu dev
	scripts/images build --look-alike ddp-cpu

bench: venv ## Measure muster beside bare torchrun and AWS's toolkit, and write docs/performance.md (10 minutes)
	@if scripts/engine; then $(MAKE) --no-print-directory images; fi
	$(BIN)/python scripts/bench $(BENCH)

reference: venv ## Write docs/reference.md from the tables in the code
	$(BIN)/python scripts/reference

engine: ## Make sure that a Docker engine answers; on Debian, as root, install and start one
	scripts/engine

venv: $(VENV)/.installed ## This machine's Python environment, with the harness and the benchmark
dev: $(VENV)/.dev venv ## The same with the developer tools

$(VENV)/.packages: docker-bake.hcl
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==$(TORCH) numpy==$(NUMPY) scikit-learn
	@touch $@

# The wheels, not links to the sources: what is tested is what the images install.
$(VENV)/.installed: $(VENV)/.packages $(shell find entrypoint nccl-tests -name '*.py' -o -name '*.toml' -o -name '*.pth' | grep -v /tests/)
	$(PIP) --force-reinstall --no-deps ./entrypoint ./nccl-tests
	$(PIP) './entrypoint[local]'
	@touch $@

$(VENV)/.dev: $(VENV)/.packages requirements-dev.txt
	$(PIP) -r requirements-dev.txt
	@touch $@

$(DATA)/digits.npz: examples/make_digits.py | venv
	$(BIN)/python $< $(DATA)

clean: ## Remove what was built here; images and the results in muster-out stay
	rm -rf build $(VENV)
