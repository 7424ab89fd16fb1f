# Everything a fresh clone needs: `make demo`, `make test`. PYTHON may name another interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
export RAY_AUTH_MODE ?= disabled

.PHONY: demo test setup lint format bench docs browser postgresql clean

demo: .venv/.ready
	$(BIN)/limen demo

test: .venv/.ready-test browser postgresql
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
	$(BIN)/limen data get mnist
	$(BIN)/limen data get cifar10
	$(BIN)/python benchmarks/bench_attacks.py
	$(BIN)/python benchmarks/bench_memory.py
	$(BIN)/python benchmarks/bench_speech_batch.py
	$(BIN)/python benchmarks/bench_adaptive.py
	$(BIN)/python benchmarks/bench_listening.py
	$(BIN)/python benchmarks/bench_study_statistics.py

docs: .venv/.ready
	$(BIN)/python -m limen.cli.reference

# What a bare Debian or Ubuntu lacks: the module venv, a C compiler and Python's headers (the package pesq is compiled).
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
NEEDED = import ensurepip, os, shutil, sysconfig; assert shutil.which('cc') and os.path.exists(sysconfig.get_path('include') + '/Python.h')

.venv/bin/python:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), sys.version' || (echo "Limen needs Python 3.11 or newer; set PYTHON=python3.11" && exit 2)
	@$(PYTHON) -c "$(NEEDED)" 2>/dev/null || (echo "== installing a C compiler, Python's headers and venv" && \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q --no-install-recommends gcc libc6-dev python3-dev python3-venv)
	@echo "== making the virtual environment .venv"
	@$(PYTHON) -m venv .venv

.venv/.ready: .venv/bin/python pyproject.toml constraints.txt
	@echo "== installing Limen and what it needs (about 3 minutes the first time)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[models,listen,plots]'
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
	  (echo "== installing Chromium, which opens the reports in the tests" && $(SUDO) apt-get update -q && \
	   $(SUDO) apt-get install -y -q --no-install-recommends chromium)

postgresql:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  (echo "== installing PostgreSQL, in which the tests keep answers too" && $(SUDO) apt-get update -q && \
	   $(SUDO) apt-get install -y -q --no-install-recommends postgresql)

clean:
	rm -rf .venv .venv-peers build *.egg-info
