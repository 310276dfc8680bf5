# Everything a person needs: `make run` serves the examples, `make test` proves the whole thing.
# Both set up what they need first, also on a fresh machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help setup run test check bench soak clean
NPM_CI := npm ci --no-audit --no-fund --prefix
JS     := tests/js/node_modules/.ready
AG_UI  := js/packages/ag-ui/dist/.ready

help:  ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/.ready  ## Make .venv with everything for development

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	touch $@

# The packages of a folder, at the versions of its lock file.
%/node_modules/.ready: %/package-lock.json
	$(NPM_CI) $*
	touch $@

$(AG_UI): js/node_modules/.ready $(wildcard js/packages/ag-ui/src/*.ts js/packages/ag-ui/*.json)
	npm run build --prefix js
	touch $@

run: setup  ## Serve the example agents on http://127.0.0.1:2024
	$(BIN)/threadwire dev --config examples/langgraph.json --data .threadwire

check: setup  ## Lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check $(JS) $(AG_UI)  ## Everything that must hold
	npm test --prefix js
	$(BIN)/pytest

bench: setup  ## Print the budget table, beside bare graph.astream and, where installed, the stock dev server
	$(BIN)/python -m bench

soak: setup  ## The long loops: 500 kills, and thousands of stories of the storage
	KILL_CYCLES=500 $(BIN)/pytest tests/integration/test_kill.py --timeout 7200
	THREADWIRE_HYPOTHESIS_EXAMPLES=2000 $(BIN)/pytest tests/conformance --timeout 7200

clean:  ## Remove what was built
	rm -rf $(VENV) tests/js/node_modules js/node_modules js/packages/*/dist build dist src/*.egg-info
