# Two commands: `make demo` and `make test`. Both make the environment first; the second time that takes no time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all check chromium format bench clean

demo: $(READY)
	$(BIN)/unweave demo

test: check
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-all: check chromium
	$(BIN)/python -m pytest -q -n 2

# The explorer's page is tested in a real browser where there is one. Never fails: without it those tests are skipped.
chromium:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y chromium; then :; \
	else echo "no Chromium: tests of the explorer's page will be skipped; install it as root, e.g. apt-get install chromium"; fi

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# About 50 minutes. All but the first three keep their results and put them into benchmarks/README.md; BENCH=--quick does
# not, and is quick where a script can be.
BENCH ?= --save
bench: $(READY)
	$(BIN)/python benchmarks/peers/install.py
	for script in dsprites tc_bias networks; do $(BIN)/python benchmarks/$$script.py || exit 1; done
	for script in papers compiled floor step_profile; do $(BIN)/python benchmarks/$$script.py $(filter --save,$(BENCH)) || exit 1; done
	for script in training scores start growth explorer; do $(BIN)/python benchmarks/$$script.py $(BENCH) || exit 1; done

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

# torch goes first and alone: what depends on it must find it and not fetch another build.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "unweave needs Python 3.10 or newer, this is " + sys.version.split()[0] + ": run make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)
