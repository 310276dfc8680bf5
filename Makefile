# The main targets: `make run` serves the examples, `make test` runs every check and test.
# Both install what they need first, even on a fresh machine.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check --quiet install --editable
SERVES  := $(VENV)/.serves
STOCK   := .venv-stock
LANGHOST := .venv-langhost
OLDEST  := .venv-oldest
NEWEST  := .venv-newest
JS      := tests/js/node_modules/.ready
NPM_CI  := npm ci --no-audit --no-fund --prefix
AG_UI   := js/packages/ag-ui/dist/.ready
PAGE    := examples/dashboard-page
BUILT   := $(PAGE)/dist/.ready
TL_PAGE := examples/timeline-page
TL_BUILT := $(TL_PAGE)/dist/.ready
CK_PAGE := examples/chat-page
CK_BUILT := $(CK_PAGE)/dist/.ready
CHAT    := tests/copilotkit-page
CHATBOX := $(CHAT)/dist/.ready
CHROME  := tests/js/node_modules/.chromium
ORACLE  := tests/copilotkit-runtime/node_modules/.ready
SERVERS := tests/services/.ready
# The tests that would fail on a LangGraph that behaves differently.
VERSIONS := tests/versions tests/unit/graphs tests/unit/engine tests/conformance $(addprefix tests/e2e/test_, \
  stream.py runs.py state.py interrupts.py answers.py graph_forms.py emitted_events.py forks.py stateless_runs.py \
  cancel.py blocking.py project_storage.py thread_copies.py store.py embedding.py loopback_clients.py)
# The part of the API suite that make test repeats on PostgreSQL.
ON_POSTGRES := $(addprefix tests/e2e/test_, runs.py stream.py multitask_strategies.py)
# A project with pins of its own, which the test installs.
PINNED  := tests/versions/test_pinned_project.py
# One process per core. A file stays in one process, so its tests share the servers that they start.
PARALLEL := --numprocesses auto --dist loadfile

SOAK    := $(BIN)/pytest --capture no --timeout 7200
# One part of `make soak`: make soak-disk
PARTS   := soak-chaos soak-kills soak-resume soak-storage soak-connections soak-disk soak-memory soak-stops \
  soak-workers soak-cluster soak-zombies soak-outages soak-commits soak-rolling

.PHONY: help setup stock langhost run page test test-workers test-versions test-postgres test-extended test-all newest check bench soak $(PARTS) clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 15

# What the tests need in addition to Python: JavaScript clients, pages, a browser, and servers to compare with.
OTHERS  := $(STOCK)/.ready $(JS) $(AG_UI) $(BUILT) $(TL_BUILT) $(CK_BUILT) $(CHATBOX) $(CHROME) $(ORACLE) $(SERVERS)

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

# One after the other: each of them builds the package in src/.
$(STOCK)/.ready: pyproject.toml constraints-stock.txt | $(VENV)/.ready
	test -x $(STOCK)/bin/python || $(PYTHON) -m venv $(STOCK)
	$(STOCK)/bin/python $(INSTALL) '.[stock]' --constraint constraints-stock.txt
	touch $@

langhost: $(LANGHOST)/.ready  ## Create .venv-langhost with langhost, for comparison in the benchmarks on PostgreSQL

# It runs the graphs of bench/, which need nothing of Threadwire.
$(LANGHOST)/.ready: constraints-langhost.txt
	test -x $(LANGHOST)/bin/python || $(PYTHON) -m venv $(LANGHOST)
	$(LANGHOST)/bin/python -m pip --disable-pip-version-check --quiet install langhost --constraint constraints-langhost.txt
	touch $@

# The oldest supported versions of LangGraph and its packages.
$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt | $(STOCK)/.ready
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(INSTALL) '.[test]' --constraint constraints-oldest.txt
	touch $@

# The newest versions that pyproject.toml allows, of LangGraph's packages only; looked up every time.
newest:
	test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	grep -vE '^(langchain|langgraph|langsmith)' constraints.txt > $(NEWEST)/constraints.txt
	$(NEWEST)/bin/python $(INSTALL) '.[test]' --upgrade --upgrade-strategy eager --constraint $(NEWEST)/constraints.txt

# The npm packages of a folder, at the versions of its lock file.
%/node_modules/.ready: %/package-lock.json
	$(NPM_CI) $*
	touch $@

$(AG_UI): js/node_modules/.ready $(wildcard js/packages/*/src/*.ts js/packages/*/src/*.tsx js/packages/*/*.json)
	npm run build --prefix js
	touch $@

$(BUILT): $(AG_UI) $(PAGE)/node_modules/.ready $(wildcard $(PAGE)/src/* $(PAGE)/*.js $(PAGE)/*.json $(PAGE)/*.html)
	npm run build --prefix $(PAGE)
	touch $@

$(TL_BUILT): $(AG_UI) $(TL_PAGE)/node_modules/.ready $(wildcard $(TL_PAGE)/src/* $(TL_PAGE)/*.js $(TL_PAGE)/*.json $(TL_PAGE)/*.html)
	npm run build --prefix $(TL_PAGE)
	touch $@

$(CK_BUILT): $(CK_PAGE)/node_modules/.ready $(wildcard $(CK_PAGE)/src/* $(CK_PAGE)/src/stand-in/* $(CK_PAGE)/*.js $(CK_PAGE)/*.json $(CK_PAGE)/*.html)
	npm run build --prefix $(CK_PAGE)
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

# The tests start their own PostgreSQL and Redis: they only need the programs.
$(SERVERS): | $(CHROME)  # not at the same time: apt-get does not wait for another one
	{ ls /usr/lib/postgresql/*/bin/postgres || command -v postgres; } && command -v redis-server && ls /usr/sbin/nginx \
	  && ls /usr/lib/*/faketime/libfaketimeMT.so.1 || { apt-get update --quiet && DEBIAN_FRONTEND=noninteractive \
	  apt-get install --quiet --yes --no-install-recommends postgresql redis-server nginx-light libfaketime; }
	touch $@

page: $(BUILT) $(TL_BUILT) $(CK_BUILT)  ## Build the pages /chat, /dashboard and /timeline (needs Node)

run: $(SERVES)  ## Serve the example agents on http://127.0.0.1:2024, and the pages /chat, /dashboard and /timeline if Node is installed
	@$(BIN)/python examples/run.py

check: $(VENV)/.ready  ## Run the linters, the type checker and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Setup takes several minutes, so both cores share it.
test:  ## Run all checks and tests; those marked every_version also on the oldest LangGraph
	$(MAKE) --jobs 2 setup $(OLDEST)/.ready
	$(MAKE) check
	npm run check --prefix $(PAGE)
	npm run check --prefix $(TL_PAGE)
	npm run check --prefix $(CK_PAGE)
	npm test --prefix js
	$(BIN)/pytest $(PARALLEL) --durations 10 --ignore $(PINNED)
	$(MAKE) test-workers
	@echo "A part of the API suite, on PostgreSQL and Redis:"
	E2E_STORAGE=postgres $(BIN)/pytest $(PARALLEL) $(ON_POSTGRES)
	@echo "The tests marked every_version, on the oldest LangGraph ($(OLDEST)):"
	$(OLDEST)/bin/pytest $(PARALLEL) -m every_version $(VERSIONS)

test-workers: $(VENV)/.ready  ## Run the tests marked with_workers with two worker processes
	WORKERS=2 KILL_CYCLES=3 $(BIN)/pytest $(PARALLEL) -m with_workers

test-versions: $(VENV)/.ready $(OLDEST)/.ready newest $(JS)  ## Run the tests that depend on LangGraph with its oldest and newest versions, and with a project's pins
	@echo "On the oldest LangGraph ($(OLDEST)):"
	$(OLDEST)/bin/pytest $(PARALLEL) $(VERSIONS) --ignore $(PINNED)
	@echo "On the newest LangGraph ($(NEWEST)):"
	$(NEWEST)/bin/pytest $(PARALLEL) $(VERSIONS) --ignore $(PINNED)
	@echo "A project that pins LangGraph and LangChain:"
	$(BIN)/pytest $(PINNED)

test-extended: setup  ## Run the tests marked extended: other databases, versions and setups of tests that make test runs
	EXTENDED=1 $(BIN)/pytest $(PARALLEL) -m extended

test-postgres: $(VENV)/.ready $(JS) $(SERVERS)  ## Run the API suite and the conformance suites on PostgreSQL and Redis
	E2E_STORAGE=postgres $(BIN)/pytest $(PARALLEL) tests/e2e
	CONFORMANCE_REDIS=1 $(BIN)/pytest $(PARALLEL) tests/conformance/test_postgres.py

test-all: test test-versions test-postgres test-extended  ## Run everything: make test, then make test-versions, test-postgres and test-extended

# The standard AG-UI adapter, for comparison in the benchmarks.
$(VENV)/.bench: $(VENV)/.ready
	$(BIN)/python $(INSTALL) '.[bench]' --constraint constraints.txt
	touch $@

bench: $(VENV)/.bench stock langhost $(AG_UI) $(CHROME) $(SERVERS)  ## Run the benchmarks and compare with bare graph.astream, the stock dev server and langhost
	$(BIN)/python -m bench

# Each part takes at most 90 minutes; CONTRIBUTING.md describes them.
soak: $(PARTS)  ## Run the long tests, or one part of them: make soak-chaos, soak-kills, soak-resume, …

$(PARTS): $(VENV)/.ready

soak-chaos:
	CHAOS_CYCLES=500 $(SOAK) tests/soak/test_chaos.py

soak-kills:
	KILL_CYCLES=500 $(SOAK) tests/integration/test_kill.py

soak-resume:
	RESUME_STRIDE=1 $(SOAK) tests/integration/test_resume.py

soak-storage:
	THREADWIRE_HYPOTHESIS_EXAMPLES=2000 $(SOAK) tests/conformance

soak-connections:
	SOAK_SECONDS=1800 $(SOAK) tests/soak/test_exhaustion.py -k connection

soak-disk:
	SOAK_SECONDS=1800 $(SOAK) tests/soak/test_exhaustion.py -k disk

soak-memory:
	EXTENDED=1 MEMORY_STREAMS=200 $(SOAK) tests/e2e/test_memory_bounds.py

soak-stops:
	SOAK_SECONDS=1200 $(SOAK) tests/soak/test_exhaustion.py -k stops

soak-workers:
	EXTENDED=1 ZOMBIES=20 $(SOAK) tests/integration/test_worker_processes.py -k stopped

soak-cluster:
	CLUSTER_CYCLES=100 CLUSTER_FAULTS=kill_a_worker,kill_an_api $(SOAK) tests/cluster/test_cluster.py -k whatever_fails

soak-zombies:
	ZOMBIES=10 $(SOAK) tests/cluster/test_cluster.py -k hangs

soak-outages:
	CLUSTER_CYCLES=60 CLUSTER_FAULTS=cut_redis,kill_redis,cut_postgres,stall_postgres,restart_postgres \
	  $(SOAK) tests/cluster/test_cluster.py -k whatever_fails

soak-commits:
	CLUSTER_CYCLES=200 CLUSTER_FAULTS=cut_some_commits $(SOAK) tests/cluster/test_cluster.py -k whatever_fails

soak-rolling:
	CLUSTER_ROUNDS=5 $(SOAK) tests/cluster/test_cluster.py -k in_turn

clean:  ## Remove all installed packages and build output
	rm -rf $(VENV) $(STOCK) $(LANGHOST) $(OLDEST) $(NEWEST) tests/*/node_modules js/node_modules js/packages/*/dist $(PAGE)/node_modules $(PAGE)/dist $(TL_PAGE)/node_modules $(TL_PAGE)/dist $(CK_PAGE)/node_modules $(CK_PAGE)/dist $(CHAT)/dist build dist src/*.egg-info
