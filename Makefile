# The main targets: `make run` serves the examples, `make test` runs every check and test.
# Both install what they need first, even on a fresh machine.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check --quiet install --editable
SERVES  := $(VENV)/.serves
STOCK   := .venv-stock
JS      := tests/js/node_modules/.ready
NPM_CI  := npm ci --no-audit --no-fund --prefix
AG_UI   := js/packages/ag-ui/dist/.ready
PAGE    := examples/dashboard-page
BUILT   := $(PAGE)/dist/.ready
CHAT    := tests/copilotkit-page
CHATBOX := $(CHAT)/dist/.ready
CHROME  := tests/js/node_modules/.chromium
ORACLE  := tests/copilotkit-runtime/node_modules/.ready
# One process per core. A file stays in one process, so its tests share the servers that they start.
PARALLEL := --numprocesses auto --dist loadfile

.PHONY: help setup stock run page test check bench soak clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

# What the tests need in addition to Python: JavaScript clients, pages, a browser, and servers to compare with.
OTHERS  := $(STOCK)/.ready $(JS) $(AG_UI) $(BUILT) $(CHATBOX) $(CHROME) $(ORACLE)

setup: $(VENV)/.ready $(OTHERS)  ## Install and build everything for development and tests

$(VENV)/.ready: $(SERVES)
	$(BIN)/python $(INSTALL) '.[dev]' --constraint constraints.txt
	touch $@

# The packages for serving the examples. The rest takes as long again, so `make run` does not install it.
$(SERVES): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) '.[examples]' --constraint constraints.txt
	touch $@

stock: $(STOCK)/.ready  ## Create .venv-stock with the stock dev server, for comparison in tests and benchmarks

$(STOCK)/.ready: pyproject.toml constraints-stock.txt
	test -x $(STOCK)/bin/python || $(PYTHON) -m venv $(STOCK)
	$(STOCK)/bin/python $(INSTALL) '.[stock]' --constraint constraints-stock.txt
	touch $@

# The npm packages of a folder, at the versions of its lock file.
%/node_modules/.ready: %/package-lock.json
	$(NPM_CI) $*
	touch $@

$(AG_UI): js/node_modules/.ready $(wildcard js/packages/ag-ui/src/*.ts js/packages/ag-ui/*.json)
	npm run build --prefix js
	touch $@

$(BUILT): $(AG_UI) $(PAGE)/node_modules/.ready $(wildcard $(PAGE)/src/* $(PAGE)/*.js $(PAGE)/*.json $(PAGE)/*.html)
	npm run build --prefix $(PAGE)
	touch $@

# The test page for CopilotKit's components uses the packages of the dashboard.
$(CHATBOX): $(PAGE)/node_modules/.ready $(PAGE)/build.js $(wildcard $(CHAT)/src/* $(CHAT)/*.html)
	node $(PAGE)/build.js $(CHAT)
	touch $@

# Playwright uses the system's browser.
$(CHROME): $(JS)
	command -v chromium || command -v google-chrome || { apt-get update --quiet \
	  && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends chromium; }
	touch $@

page: $(BUILT)  ## Build the dashboard page (needs Node)

run: $(SERVES)  ## Serve the example agents on http://127.0.0.1:2024, and the page /dashboard if Node is installed
	@$(BIN)/python examples/run.py

check: $(VENV)/.ready  ## Run the linters, the type checker and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check $(OTHERS)  ## Run all checks and tests
	npm run check --prefix $(PAGE)
	npm test --prefix js
	$(BIN)/pytest $(PARALLEL) --durations 10

# The standard AG-UI adapter, for comparison in the benchmarks.
$(VENV)/.bench: $(VENV)/.ready
	$(BIN)/python $(INSTALL) '.[bench]' --constraint constraints.txt
	touch $@

bench: $(VENV)/.bench stock  ## Run the benchmarks and compare with bare graph.astream and the stock dev server
	$(BIN)/python -m bench

soak: $(VENV)/.ready  ## Run the long tests: 500 kills, a resume at every id, and thousands of generated storage tests
	KILL_CYCLES=500 $(BIN)/pytest tests/integration/test_kill.py --timeout 7200
	RESUME_STRIDE=1 $(BIN)/pytest tests/integration/test_resume.py --timeout 7200
	THREADWIRE_HYPOTHESIS_EXAMPLES=2000 $(BIN)/pytest tests/conformance --timeout 7200

clean:  ## Remove all installed packages and build output
	rm -rf $(VENV) $(STOCK) tests/*/node_modules js/node_modules js/packages/*/dist $(PAGE)/node_modules $(PAGE)/dist $(CHAT)/dist build dist src/*.egg-info
