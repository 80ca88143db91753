# Every target sets itself up: a virtual environment in .venv, made anew when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

#: How long make fuzz spends on each of its targets.
SECONDS_EACH ?= 120

.PHONY: help demo test test-oldest coverage release-check count same-fits fuzz grid lint docs bench bench-default bench-ordinary bench-choices bench-low-rank bench-suites bench-time bench-fit bench-observed bench-classes bench-tensors bench-cp bench-gpu bench-peers experiments paper clean

help:
	@echo "make demo   run the main job and draw it into demo/"
	@echo "make test   run the tests on NumPy, array-api-strict and PyTorch"
	@echo "make test-oldest  the same with every dependency at its lower bound (Python 3.10 to 3.12)"
	@echo "make coverage  make test, with what lines and branches it reaches, into coverage/"
	@echo "make release-check  build, check and install what a release would be; nothing is uploaded"
	@echo "make count  files, lines and lines of code of the package, by folder"
	@echo "make same-fits BASE=<commit>  do some sixty fits come out as they did there?"
	@echo "make fuzz   damaged files and odd command lines, SECONDS_EACH=120 a target"
	@echo "make grid   1,200 fits of odd data: order, units, weights, scores (about 20 minutes)"
	@echo "make lint   ruff, ruff format, mypy"
	@echo "make docs   the documentation site into docs/_build/html, warnings as errors"
	@echo "make bench  ratios against bare matrix products"
	@echo "make bench-default  is the default fit right? real tables, simulations, times (about 25 minutes)"
	@echo "make bench-time  what a user waits for, over scikit-learn's times (about 20 minutes, in parts)"
	@echo "make bench-ordinary  easy groups, constant columns, outliers of real tables (about 5 minutes)"
	@echo "make bench-suites  public clusterings: fits, merged components, other methods (about 15 minutes)"
	@echo "make bench-low-rank  factors in many columns: errors, new rows, costs of moments (about 10 minutes)"
	@echo "make bench-choices  what auto chooses on real tables, and 500 files of a collection (about an hour)"
	@echo "make bench-fit  fits against scikit-learn's EM (about 15 minutes)"
	@echo "make bench-observed  rows with gaps and with known errors (about 30 minutes)"
	@echo "make bench-classes  classes and regression against scikit-learn's (about 15 minutes)"
	@echo "make paper  section 7 of the paper, and its tables in docs/experiments.md (about an hour, can be interrupted)"
	@echo "make experiments  section 7 of the paper, and figures on trusting a fit (about 3 hours, can be interrupted)"
	@echo "make bench-peers  scikit-learn, pomegranate, gmmx and Spark on the same data (about an hour)"
	@echo "make bench-gpu  passes and fits on a CUDA device, against its roofs and peers (about 15 minutes)"
	@echo "make bench-cp  decompositions and known noise against tensorly and EM (about 10 minutes)"
	@echo "make bench-tensors  large data: tensors, files, a cluster, passes to the maximum (about 30 minutes)"

$(VENV)/made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "momentmix needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/plot: pyproject.toml constraints.txt | $(VENV)/made
	@echo "setting up .venv (once)"
	$(PIP) -e ".[plot,files]"
	@touch $@

$(VENV)/bench: pyproject.toml constraints.txt | $(VENV)/made
	@echo "setting up .venv with the benchmark data (once)"
	$(PIP) -e ".[dask,files,bench]"
	@touch $@

$(VENV)/test: pyproject.toml constraints.txt | $(VENV)/made
	@echo "setting up .venv with the test tools (once)"
	$(PIP) -e ".[plot,torch,dask,duckdb,polars,spark,files,excel,bench,docs,test]"
	tools/browser $(BIN)/python
	@touch $@ $(VENV)/plot $(VENV)/bench $(VENV)/docs

$(VENV)/docs: pyproject.toml constraints.txt | $(VENV)/made
	@echo "setting up .venv with Sphinx (once)"
	$(PIP) -e ".[plot,files,docs]"
	@touch $@ $(VENV)/plot

demo: $(VENV)/plot
	$(BIN)/python -m momentmix.demo demo
	$(BIN)/python experiments/third_moment.py demo

test: $(VENV)/test
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n auto -q

# Commands and workers that the tests start are measured too.
coverage: $(VENV)/test
	$(BIN)/python -m coverage erase
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n auto -q --cov --cov-report=term --cov-report=html

$(VENV)/release: pyproject.toml | $(VENV)/made
	@echo "setting up .venv with the tools of a release (once)"
	$(PIP) build twine
	@touch $@

release-check: $(VENV)/release
	$(BIN)/python tools/release_check.py

count:
	@python3 tools/count.py

# The fits of BASE are recorded with its own source, by this tree's list of fits.
same-fits: $(VENV)/test
	@test -n "$(BASE)" || { echo "make same-fits BASE=<commit>" >&2; exit 2; }
	@set -e; there=$$(mktemp -d); \
	trap 'git worktree remove --force "$$there/tree" 2>/dev/null || true; rm -rf "$$there"' EXIT; \
	git worktree add --quiet --detach "$$there/tree" "$(BASE)"; \
	PYTHONPATH="$$there/tree/src" $(BIN)/python tools/same_fits.py record "$$there/before.npz"; \
	PYTHONPATH="$(CURDIR)/src" $(BIN)/python tools/same_fits.py compare "$$there/before.npz"

fuzz: $(VENV)/test
	MOMENTMIX_FUZZ_SECONDS=$(SECONDS_EACH) SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q tests/files/test_fuzz_files.py tests/cli/test_fuzz_command.py

grid: $(VENV)/plot
	$(BIN)/python benchmarks/grid.py

# Every dependency at the lower bound that pyproject.toml gives it, what they depend on at its newest.
# Torch alone is at the release of constraints.txt, since others are gigabytes: its bound is not tested.
.venv-oldest/made: pyproject.toml constraints.txt tools/lowest
	@echo "setting up .venv-oldest with the lowest versions (once)"
	$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13) and "the lowest versions are built for Python 3.10 to 3.12; choose one with PYTHON=")'
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check packaging 'tomli; python_version < "3.11"'
	.venv-oldest/bin/python tools/lowest files excel dask duckdb polars spark plot > .venv-oldest/lowest.txt
	grep '^torch==' constraints.txt >> .venv-oldest/lowest.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-oldest/lowest.txt -e ".[plot,torch,dask,duckdb,polars,spark,files,excel,bench,test]"
	@touch $@

# Not there: what Chromium looks at, which `make test` shows it, and the stored pictures, which are those
# of one release of matplotlib. Old releases deprecate nothing of ours, but call what newer ones of others
# (pyparsing, pytest) deprecate.
test-oldest: .venv-oldest/made
	SCIPY_ARRAY_API=1 .venv-oldest/bin/python -m pytest -n auto -q -W ignore::DeprecationWarning \
	  --deselect tests/plotting/test_plotting.py::test_picture \
	  --deselect tests/report/test_report.py::test_loads_without_errors_or_outside_requests \
	  --deselect tests/report/test_report.py::test_tables_sort_by_number \
	  --deselect tests/report/test_report.py::test_fits_a_phone_light_and_dark \
	  --deselect tests/report/test_report.py::test_prints \
	  --deselect tests/report/test_report.py::test_of_moments_one_column_and_many

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $$(git ls-files '*.md' '*.py' '*.html')
	$(BIN)/mypy

docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "site: docs/_build/html/index.html"

bench: $(VENV)/plot
	$(BIN)/python benchmarks/run.py

bench-default: $(VENV)/bench
	$(BIN)/python benchmarks/default.py

bench-time: $(VENV)/bench
	$(BIN)/python benchmarks/waiting.py

bench-ordinary: $(VENV)/bench
	$(BIN)/python benchmarks/ordinary.py

bench-suites: $(VENV)/bench
	$(BIN)/python benchmarks/suites.py

bench-low-rank: $(VENV)/bench
	$(BIN)/python benchmarks/low_rank.py

bench-choices: $(VENV)/bench
	$(BIN)/python benchmarks/choices.py

bench-fit: $(VENV)/bench
	$(BIN)/python benchmarks/fit.py

bench-observed: $(VENV)/bench
	$(BIN)/python benchmarks/observed.py

bench-classes: $(VENV)/bench
	$(BIN)/python benchmarks/classes.py

bench-tensors: $(VENV)/bench
	$(BIN)/python benchmarks/tensors.py
	$(BIN)/python benchmarks/large.py

$(VENV)/gpu: pyproject.toml constraints.txt | $(VENV)/made
	@echo "setting up .venv with PyTorch (once)"
	$(PIP) -e ".[torch,files,bench]"
	@touch $@

bench-gpu: $(VENV)/gpu
	$(BIN)/python benchmarks/gpu.py

bench-cp: $(VENV)/bench
	$(BIN)/python benchmarks/decomposition.py

.venv-peers/made: benchmarks/peers/requirements.txt pyproject.toml constraints.txt
	@echo "setting up .venv-peers with the peers (once)"
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . -r benchmarks/peers/requirements.txt
	@touch $@

bench-peers: .venv-peers/made
	.venv-peers/bin/python benchmarks/peers/run.py

paper: $(VENV)/bench $(VENV)/plot
	$(BIN)/python experiments/run.py accuracy comparison
	$(BIN)/python experiments/page.py

experiments: $(VENV)/bench $(VENV)/plot
	$(BIN)/python experiments/run.py

clean:
	rm -rf $(VENV) .venv-peers .venv-oldest demo coverage .coverage docs/_build docs/gallery docs/reference docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
