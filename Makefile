# `make demo` and `make test` are all a fresh machine needs: each sets up its own
# environment from constraints.txt in .venv, then runs.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check suite campaign format clean

demo: .stamps/core
	$(BIN)/python examples/demo.py

test: check suite

check: .stamps/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python --warnings

suite: .stamps/dev
	$(BIN)/python -m pytest -q -n 2

campaign: .stamps/dev
	TENSORC_PROFILE=campaign $(BIN)/python -m pytest -q -n 2

format: .stamps/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .stamps build dist

.stamps/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tensorc needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { echo "python3 cannot make environments here; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@mkdir -p .stamps && touch $@

.stamps/core: .stamps/venv pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	@touch $@

.stamps/dev: .stamps/venv pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $@
