# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)

# uv is used where it is installed. It knows PyTorch's CPU wheels by --torch-backend; pip does not.
ifdef UV
  MAKE_VENV := uv venv --quiet --python ">=3.11" $(VENV)
  INSTALL   := uv pip install --quiet --python $(BIN)/python --torch-backend cpu
else
  MAKE_VENV := $(PYTHON) -m venv $(VENV)
  INSTALL   := $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.PHONY: demo test docs lint format clean

demo: $(VENV)/.base  ## the main job, stage by stage, and a page of it in report/ (TRACE=path: on your own traffic)
	@$(BIN)/pagefault demo $(if $(TRACE),--trace "$(TRACE)")

test: $(VENV)/.test  ## all tests, or with K=name only those whose name contains it
	@$(BIN)/python -m pytest $(if $(K),-k "$(K)")

docs: $(VENV)/.docs  ## the documents as a site, under site/
	@$(BIN)/mkdocs build --quiet && echo "Open $(CURDIR)/site/index.html in a browser."

lint: $(VENV)/.test  ## style and strict types, in every room
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.test
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

$(BIN)/python:
	@$(if $(UV),true,$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PageFault needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Give another one with: make PYTHON=python3.12 ...")')
	@$(MAKE_VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	@$(INSTALL) -e '.[report]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@$(INSTALL) -e '.[test]'
	@touch $(VENV)/.base $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@$(INSTALL) -e '.[docs]'
	@touch $@
