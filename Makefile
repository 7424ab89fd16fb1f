# Everything a fresh clone needs: `make demo`, `make test`. PYTHON may name another interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
export RAY_AUTH_MODE ?= disabled

.PHONY: demo test setup lint format bench docs browser clean

demo: .venv/.ready
	$(BIN)/limen demo

test: .venv/.ready-test browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

setup: .venv/.ready

lint: .venv/.ready-lint
	$(BIN)/ruff check limen tests benchmarks
	$(BIN)/ruff format --check limen tests benchmarks
	$(BIN)/mypy

format: .venv/.ready-lint
	$(BIN)/ruff check --fix limen tests benchmarks
	$(BIN)/ruff format limen tests benchmarks

bench: .venv/.ready
	$(BIN)/python benchmarks/bench_pgd.py

docs: .venv/.ready
	$(BIN)/python -m limen.reference

.venv/bin/python:
	@echo "== making the virtual environment .venv"
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), sys.version' || (echo "Limen needs Python 3.11 or newer; set PYTHON=python3.11" && exit 2)
	@$(PYTHON) -m venv .venv || (echo "The module venv is missing; on Debian or Ubuntu: apt-get install python3-venv" && exit 2)

.venv/.ready: .venv/bin/python pyproject.toml constraints.txt
	@echo "== installing Limen and what it needs (about 3 minutes the first time)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[models]'
	@touch $@

.venv/.ready-test: .venv/.ready
	@echo "== installing what the tests need"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

.venv/.ready-lint: .venv/.ready
	@echo "== installing the linters"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[lint]'
	@touch $@

browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  (echo "== installing Chromium, which opens the reports in the tests" && apt-get update -q && apt-get install -y -q --no-install-recommends chromium)

clean:
	rm -rf .venv .venv-peers build *.egg-info
