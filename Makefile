# Two commands on a fresh machine: `make demo` and `make test`. Both make what they need.

PYTHON ?= python3
VENV := .venv
DEMO_VENV := .venv-demo
PIP_OPTIONS := --quiet --disable-pip-version-check

.PHONY: demo test check lint types layers unit format bench torture clean

demo: $(DEMO_VENV)/.ready
	$(DEMO_VENV)/bin/python examples/demo.py

test: check

check: $(VENV)/.ready lint layers types unit

lint: $(VENV)/.ready
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .

layers: $(VENV)/.ready
	$(VENV)/bin/lint-imports

types: $(VENV)/.ready
	$(VENV)/bin/mypy

unit: $(VENV)/.ready
	$(VENV)/bin/pytest -n 2 --dist worksteal

format: $(VENV)/.ready
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# Every kill point, every failing call, and an hour of kills at random instants.
TORTURE_SECONDS ?= 3600
torture: $(VENV)/.ready
	$(VENV)/bin/python -m unienv_data.testing.torture $(TORTURE_SECONDS)

bench: $(VENV)/.ready
	$(VENV)/bin/python benchmarks/all.py

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_OPTIONS) --upgrade "pip>=25.1"
	$(VENV)/bin/python -m pip install $(PIP_OPTIONS) --editable . --group test --group lint
	touch $@

$(DEMO_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install $(PIP_OPTIONS) --upgrade "pip>=25.1"
	$(DEMO_VENV)/bin/python -m pip install $(PIP_OPTIONS) --editable ".[demo]"
	touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) .venv-upstream demo_output .mypy_cache .ruff_cache .pytest_cache .hypothesis
