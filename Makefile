# Everything a newcomer or CI runs. Each target makes or reuses .venv and installs what it needs, without root.
#
#   make demo           stage, fine-tune and question a small model; leaves adapter, metrics and picture
#   make test           format, lint, types, structure and the quick tests
#   make test-trainer   tests that train tiny models with torch
#   make benchmark      the side-by-side measurements
#
# TORCH_INDEX_URL points at another index for torch, for instance one with CPU builds.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENVIRONMENT := $(PYTHON) scripts/environment.py $(VENV)

.DEFAULT_GOAL := help
.PHONY: help demo test test-trainer lint benchmark clean pins

help:
	@sed -n 's/^#  *\(make .*\)/\1/p' Makefile

demo:
	@$(ENVIRONMENT) torchtune try
	@$(BIN)/python examples/orders/demo.py

test: lint
	@$(ENVIRONMENT) dev
	$(BIN)/python -m pytest -m "not trainer and not gpu and not mlx and not cluster and not docker" tests

test-trainer:
	@$(ENVIRONMENT) dev torchtune try sdk
	$(BIN)/python -m pytest -m "trainer" --timeout=600 tests

lint:
	@$(ENVIRONMENT) dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/typecheck.py

benchmark:
	@$(ENVIRONMENT) dev torchtune try
	$(BIN)/python -m benchmarks

pins:
	@$(ENVIRONMENT) dev torchtune try sdk
	$(PYTHON) scripts/pins.py $(VENV) > constraints/dev.txt.new && mv constraints/dev.txt.new constraints/dev.txt

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
