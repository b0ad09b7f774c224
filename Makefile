# Two commands set everything up on a machine with Python >= 3.11, git and make:
#   make run     evaluate the built-in agent on the built-in dataset
#   make test    run the whole test suite
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Twice the cores: many tests wait for processes and clocks.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test coverage test-accessibility test-frames test-inspect test-junit test-llama-cpp test-notebook test-ray test-s3 lint audit bench docs generated dist clean

run: $(VENV)/.installed
	$(BIN)/memfin run

# The tests start many processes, which would all compile what they import where no byte code is written.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m
XDIST := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed-test
	$(PYTEST) pytest $(XDIST)

# The same tests, and the lines that none of them runs; counting lines takes two thirds more time.
coverage: $(VENV)/.installed-test
	$(BIN)/python -m coverage erase
	$(PYTEST) coverage run -m pytest $(XDIST)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --fail-under=90

# JUnit files against the schema of Jenkins' xUnit plug-in, as pytest's source archive has it.
test-junit: $(VENV)/.installed-test $(VENV)/junit-10.xsd
	TESTS_JUNIT_SCHEMA=$(VENV)/junit-10.xsd $(PYTEST) pytest tests/cli/test_ci.py

# Pages and reports in chromium with axe-core, which is no part of memfin.
test-accessibility: $(VENV)/.installed-test $(VENV)/axe.min.js
	TESTS_AXE=$(VENV)/axe.min.js $(PYTEST) pytest tests/web/test_accessibility.py

# A llama.cpp server with a tiny random model as a judge: builds llama.cpp, which takes minutes.
test-llama-cpp: $(VENV)/.installed-llama
	$(BIN)/python -m pytest tests/e2e/test_llama_cpp.py

# Logs that inspect_ai writes with its mock model, and its solvers as agents; the package and what it needs are
# 230 MB.
test-inspect: $(VENV)/.installed-inspect
	$(BIN)/python -m pytest tests/report/test_inspect_logs.py tests/exchange/test_inspect_exchange.py \
		tests/agents/test_inspect_solvers.py

# Shards on a Ray cluster of one node on loopback, with a token; the package and what it needs are 260 MB.
test-ray: $(VENV)/.installed-ray
	$(BIN)/python -m pytest tests/scale/test_ray.py

# Results as pandas and Polars DataFrames; both are 270 MB.
test-frames: $(VENV)/.installed-frames
	$(BIN)/python -m pytest tests/results/test_frames.py

# Uploads to moto's S3 server, which is 200 MB with what it needs.
test-s3: $(VENV)/.installed-s3
	$(BIN)/python -m pytest tests/scale/test_upload_s3.py

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/runtime/test_settings_types.py
	$(BIN)/pyright --pythonpath $(BIN)/python

# Known holes of the locked packages, in a database on the network; one line tells where there is none.
audit: $(BIN)/python
	@$(BIN)/python -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip --disable-pip-version-check --quiet install pip-audit 2>$(VENV)/audit/log || \
		echo "audit: skipped, pip-audit cannot be installed"
	@test ! -x $(VENV)/audit/bin/pip-audit || $(BIN)/python scripts/audit.py $(VENV)/audit/bin/pip-audit \
		requirements/run.txt requirements/test.txt requirements/adapters.txt requirements/lint.txt

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/pipeline.py

# The site in both languages in build/site; a broken link or anchor, or a page outside of the navigation, fails
# (but not with --quiet, which hides warnings from strict mode, too).
MKDOCS := NO_MKDOCS_2_WARNING=1 PYTHONWARNINGS=ignore $(BIN)/python -m mkdocs build
docs: $(VENV)/.installed-docs
	$(MKDOCS) --config-file mkdocs.yml
	$(MKDOCS) --config-file mkdocs.zh.yml

# The notebooks of the documentation from top to bottom, with the outputs that they show.
test-notebook: $(VENV)/.installed-docs
	$(BIN)/python scripts/notebooks.py

generated: $(VENV)/.installed
	$(BIN)/python tools/translations.py
	$(BIN)/python scripts/cli_reference.py > docs/cli.md
	$(BIN)/python scripts/cli_reference.py zh > docs/zh/cli.md

# A source archive and the wheel built from it, with their metadata and contents checked.
dist: $(BIN)/python
	$(PIP) install --require-hashes --requirement requirements/release.txt
	rm -rf $(VENV)/dist
	$(BIN)/python -m build --no-isolation --outdir $(VENV)/dist >$(VENV)/dist.log || { tail $(VENV)/dist.log; exit 1; }
	$(BIN)/twine check --strict $(VENV)/dist/*
	$(BIN)/check-wheel-contents --package memfin $(VENV)/dist/*.whl

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "memfin needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# The locked packages first, with hashes; then memfin itself, without asking for anything else.
$(VENV)/.installed: $(BIN)/python pyproject.toml requirements/run.txt
	$(PIP) install --require-hashes --requirement requirements/run.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed requirements/test.txt requirements/adapters.txt
	$(PIP) install --require-hashes --requirement requirements/test.txt
	$(PIP) install --require-hashes --requirement requirements/adapters.txt
	touch $@

$(VENV)/.installed-llama: $(VENV)/.installed-test requirements/llama.txt
	$(PIP) install --require-hashes --requirement requirements/llama.txt
	touch $@

$(VENV)/.installed-inspect: $(VENV)/.installed-test requirements/inspect.txt
	$(PIP) install --require-hashes --requirement requirements/inspect.txt
	touch $@

$(VENV)/.installed-ray: $(VENV)/.installed-test requirements/ray.txt
	$(PIP) install --require-hashes --requirement requirements/ray.txt
	touch $@

$(VENV)/.installed-frames: $(VENV)/.installed-test requirements/frames.txt
	$(PIP) install --require-hashes --requirement requirements/frames.txt
	touch $@

$(VENV)/.installed-s3: $(VENV)/.installed-test requirements/s3.txt
	$(PIP) install --require-hashes --requirement requirements/s3.txt
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed requirements/docs.txt
	$(PIP) install --require-hashes --requirement requirements/docs.txt
	touch $@

$(VENV)/.installed-lint: $(VENV)/.installed-test requirements/lint.txt
	$(PIP) install --require-hashes --requirement requirements/lint.txt
	touch $@

# pip asks the index that its settings name, and checks the hash.
$(VENV)/junit-10.xsd: $(BIN)/python requirements/test.txt
	@rm -rf $(VENV)/pytest-source && mkdir $(VENV)/pytest-source
	@sed -n '/^pytest==/,/[^\\]$$/p' requirements/test.txt >$(VENV)/pytest-source/pin.txt
	@cd $(VENV)/pytest-source && { $(abspath $(BIN))/python -m pip --disable-pip-version-check download \
		--no-deps --no-binary pytest --require-hashes --requirement pin.txt >pip.log 2>&1 || \
		{ echo "$@: pip cannot download the source archive of pytest: $$(tail -n 1 pip.log)" >&2; exit 1; }; }
	@cd $(VENV)/pytest-source && tar -xzf pytest-*.tar.gz && cp pytest-*/testing/example_scripts/junit-10.xsd ..
	@touch $@

AXE := axe-core-4.14.1
AXE_SHA512 := 1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5
NPM_REGISTRY ?= https://registry.npmjs.org

$(VENV)/axe.min.js: $(BIN)/python
	@curl --fail --silent --show-error --location --retry 3 $(NPM_REGISTRY)/axe-core/-/$(AXE).tgz --output $(VENV)/$(AXE).tgz
	@cd $(VENV) && echo "$(AXE_SHA512)  $(AXE).tgz" | sha512sum --check --quiet
	@tar -xzf $(VENV)/$(AXE).tgz -C $(VENV) --strip-components 1 package/axe.min.js
	@touch $@
