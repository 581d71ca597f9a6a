# `make demo` and `make test` are all a fresh machine needs: each sets up its own
# environment from constraints.txt in .venv, then runs.

PYTHON ?= python3
BIN := .venv/bin

# A run that promises torch installs the libraries whose arrays are taken.
COMMA := ,
INTEROP := $(if $(findstring torch,$(TENSORC_REQUIRE)),interop)
DEV := .stamps/dev$(INTEROP)

.PHONY: demo test check suite campaign format clean

demo: .stamps/core
	$(BIN)/python examples/demo.py

test: check suite

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python --warnings

suite: $(DEV)
	$(BIN)/python -m pytest -q -n 2

campaign: $(DEV)
	TENSORC_PROFILE=campaign $(BIN)/python -m pytest -q -n 2

format: $(DEV)
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

$(DEV): .stamps/venv pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev$(if $(INTEROP),$(COMMA)$(INTEROP))]'
	@touch $@
