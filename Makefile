# Two commands: `make demo` and `make test`. Both make the environment first (tools/environment.py); the second time
# that takes no time. TORCH=cuda or TORCH=cpu demands that build of PyTorch, whatever there is and whatever was before.
PYTHON ?= python3
TORCH ?= auto
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all check chromium format bench clean environment dev

demo: environment
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

check: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src

format: dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# About 50 minutes. All but the first three keep their results and put them into benchmarks/README.md; BENCH=--quick does
# not, and is quick where a script can be.
BENCH ?= --save
bench: dev
	$(BIN)/python benchmarks/peers/install.py
	for script in dsprites tc_bias; do $(BIN)/python benchmarks/$$script.py || exit 1; done
	for script in papers compiled floor step_profile networks; do $(BIN)/python benchmarks/$$script.py $(filter --save,$(BENCH)) || exit 1; done
	for script in training busy scores start growth explorer; do $(BIN)/python benchmarks/$$script.py $(BENCH) || exit 1; done

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

environment:
	@$(PYTHON) tools/environment.py --torch $(TORCH)

dev:
	@$(PYTHON) tools/environment.py --torch $(TORCH) --dev
