# Every target makes the virtual environment it needs; a second call finds it ready.
#
#   make demo       real relations become vectors, neighbours and a picture (demo-output/)
#   make test       the tests and the examples of docstrings, guides and README
#   make check      formatting, lint, types
#   make test-all   the slow tests too, with new examples of each property
#   make test-machines   the tests of numbers as on other processors, locales, time zones, in random order; MACHINE=nehalem
#   make bounds     the tests with every index of compiled code checked: slow, for each night rather than each change
#   make fuzz       damaged files for every reader, SECONDS=5 for each reader; DRAWS=10000 of hostile arrays;
#                   LOADS=10000 of files while they are written, replaced, mixed, flipped, cut, and writers are killed
#   make kills      N=1000 kills at random moments of everything that writes
#   make test-oldest, make test-newest   the tests with the oldest versions that pyproject.toml allows, and the latest
#   make wheel      a wheel in dist/, with the machine code of the usual fits: the first one compiles nothing
#   make dist       sdist and wheel in dist/, the wheel tested in an environment of its own; make dist SMOKE=tests: by all
#   make newcomers  five people who meet the library for the first time, with an empty cache; make dist has them, too
#   make sbom       what the wheel is installed with, and its licences: dist/nearfar.cdx.json (CycloneDX)
#   make coverage   which lines the tests of `make test` run; fails below the floor in pyproject.toml
#   make mutants    faults put into copies of the code: fails if the tests miss one; DRAW=100: so many that are drawn
#   make bench      the lab (lab/tables, docs/benchmarks.md), FAMILY=maps: this part; make bench DATA=FOLDER says where data are
#   make docs       the documentation, warnings are errors (docs/_build/html)
#   make clean      remove what the targets above made

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
STAMP  := $(VENV)/.installed
# The file with exact versions; none: the latest of all.
CONSTRAINTS ?= constraints.txt
# Two workers, each with one thread of its own, and with files that share compiled functions (see conftest.py). They keep
# the memory that is freed: tests of fields took a quarter longer without. And they keep bytecode, also where
# the environment forbids it: many tests start Python anew.
KEEP   := MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_TOP_PAD_=67108864 PYTHONDONTWRITEBYTECODE=
PYTEST := $(KEEP) OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# The version is in the package's metadata, so a new one is a reason to install again.
PACKAGE_FILES := pyproject.toml $(CONSTRAINTS) src/nearfar/_version.py

.PHONY: help demo test check test-all test-oldest test-newest test-machines bounds fuzz kills wheel dist newcomers sbom coverage mutants bench docs clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

# The pip of $(PYTHON) installs another in a third of the time that venv takes to unpack one. With it comes what builds
# the package: pip would install that anew, in a place of its own, for each extra.
BUILD := pip hatchling editables
# Old versions of some packages have no wheel, and are built with parts of their own.
ISOLATION = $(if $(findstring oldest,$(CONSTRAINTS)),,--no-build-isolation)
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "nearfar needs Python 3.11 or later; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --disable-pip-version-check --python $@ install --quiet --no-compile $(BUILD) 2> /dev/null \
	  || { $(PYTHON) -m venv $(VENV) && $(PIP) install --quiet --no-compile $(BUILD); }

# One stamp for each extra. A pattern rule: .venv/.installed-docs installs the extra [docs]. Python compiles a module
# when it is first imported; pip would compile all of them, one by one. The tests import most of what [dev] installs, in
# two processes: for them all processors make the bytecode, once. Some packages hold files that are no Python.
$(STAMP)-%: $(PACKAGE_FILES) | $(BIN)/python
	@$(BIN)/python -c "import hatchling, editables" 2> /dev/null || $(PIP) install --quiet --no-compile $(BUILD)
	$(PIP) install --quiet --no-compile $(ISOLATION) $(addprefix --constraint ,$(CONSTRAINTS)) --editable ".[$*]"
	$(if $(filter dev,$*),@$(BIN)/python -m compileall -q -j 0 -x /tests/ $(VENV)/lib > /dev/null 2>&1 || true)
	@touch $@

# Two installs at once into one environment would trip over each other under `make -j`.
.NOTPARALLEL:

demo: $(STAMP)-demo
	$(BIN)/python examples/demo.py

test: $(STAMP)-dev
	$(PYTEST)

check: $(STAMP)-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test-all: $(STAMP)-dev
	$(PYTEST) -m "slow or not slow"

# Machine code with checks goes into a folder of its own. NEARFAR_CACHE_DIR=... make bounds takes another.
bounds: $(STAMP)-dev
	NUMBA_BOUNDSCHECK=1 NEARFAR_CACHE_DIR=$${NEARFAR_CACHE_DIR:-$(CURDIR)/.bounds-cache} $(PYTEST)

SECONDS ?= 5
DRAWS ?= 10000
LOADS ?= 10000
fuzz: $(STAMP)-dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz.py --seconds $(SECONDS)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz_arrays.py -n $(DRAWS)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz_races.py -n $(LOADS)

N ?= 1000
kills: $(STAMP)-dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/kills.py -n $(N)

test-oldest:
	$(MAKE) test PYTHON=python3.11 VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt

test-newest:
	$(MAKE) test VENV=.venv-newest CONSTRAINTS=

test-machines: $(STAMP)-dev
	$(KEEP) OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/machines.py $(MACHINE)

# What the tests of SMOKE need is installed beside the wheel; the tests find no other nearfar: src/ is on no path.
SMOKE := tests/embedding/test_embedding.py tests/embedding/test_storage.py tests/relations/test_edges.py \
         tests/estimators/test_edrep.py tests/text/test_text.py tests/words/test_skipgram.py tests/maps/test_mds.py \
         tests/whole/test_old_files.py tests/whole/test_damaged_files.py tests/cli/test_cli.py
# A wheel brings the machine code of the usual fits along, for the version of Python that makes it, see .ci/machine_code.py.
wheel: $(STAMP)-release
	rm -rf build src/nearfar/_machine_code
	NEARFAR_CACHE_DIR=build/code $(BIN)/python .ci/machine_code.py
	mkdir -p build/code && mv build/code src/nearfar/_machine_code
	$(BIN)/python -m build --wheel --outdir dist . && rm -rf src/nearfar/_machine_code

dist: $(STAMP)-release
	rm -rf dist .venv-dist
	$(BIN)/python -m build --sdist --outdir dist .
	$(MAKE) wheel
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt \
	  "$$(ls dist/*.whl)[parquet,zstd,index,plot]" pytest pytest-xdist hypothesis pandas polars networkx anndata
	cd dist && ../.venv-dist/bin/python -c "import nearfar, sys; sys.exit('.venv-dist' not in nearfar.__file__)"
	cd dist && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 ../.venv-dist/bin/python ../tests/support/newcomers.py --seconds $(PATIENCE)
	$(KEEP) OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv-dist/bin/python -m pytest -n 2 --dist loadfile $(SMOKE)

# The same from the sources: whom a package is missing for is left out. PATIENCE is in seconds of processor time.
PATIENCE ?= 10
newcomers: $(STAMP)-dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/newcomers.py --seconds $(PATIENCE)

sbom: $(STAMP)-release
	$(BIN)/python -m build --wheel --outdir dist .
	rm -rf .venv-sbom && $(PYTHON) -m venv --without-pip .venv-sbom
	$(PIP) --python .venv-sbom/bin/python install --quiet --no-compile --constraint constraints.txt dist/*.whl
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --of JSON -o dist/nearfar.cdx.json .venv-sbom/bin/python
	$(BIN)/python .ci/licences.py dist/nearfar.cdx.json

coverage: $(STAMP)-dev
	$(PYTEST) --cov --cov-report=term:skip-covered

DRAW ?=
mutants: $(STAMP)-dev
	$(if $(DRAW),$(BIN)/python tests/support/drawn_faults.py --cover,$(BIN)/python tests/support/mutants.py)
	$(if $(DRAW),$(BIN)/python tests/support/drawn_faults.py -n $(DRAW))

# What the result files hold already is not measured again; `python -m lab list` names all experiments.
FAMILY ?= graphs maps words items contrastive small search engines
bench: $(STAMP)-bench
	set -e; for name in $(FAMILY); do $(BIN)/python -m lab repeat $$name $(if $(DATA),--data "$(DATA)"); done

# -a: Sphinx reads no index entries back from an earlier build, by which the field's words lead to pages.
docs: $(STAMP)-docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -j 2 -a -b html docs docs/_build/html
	$(BIN)/python docs/search_words.py docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-dist .venv-sbom dist docs/_build docs/api/generated demo-output htmlcov .coverage .bounds-cache fuzz-output .pytest_cache .mypy_cache .ruff_cache
	find src -name __pycache__ -prune -exec rm -rf {} +
