# Every target that needs .venv creates it if it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := train,lab,slurm,retrieval,dev
export TOKENIZERS_PARALLELISM := false
export GOMP_SPINCOUNT ?= 5000

.PHONY: lab demo test gpu bench lint site gallery pictures clean

lab: $(VENV)/ready      ## open copies of the notebooks, in my-notebooks/, in JupyterLab
	$(BIN)/python -m workbench lab

demo: $(VENV)/ready     ## train SimCSE on the bundled world and print before | after
	$(BIN)/python -m workbench demo

test:                   ## run all tests, including notebooks, browser and Slurm
	$(MAKE) --jobs=2 $(VENV)/ready $(VENV)/cluster
	$(BIN)/python -m pytest -n logical --dist loadgroup

gpu: export TOKENIZERS_PARALLELISM := true
gpu: $(VENV)/ready      ## run the tests that need a GPU and print a table for docs/gpu.md
	$(BIN)/python -m pytest tests/test_gpu.py -s

bench: $(VENV)/ready    ## run the timings in benchmarks/; what needs data or a checkpoint that is missing is skipped
	for script in benchmarks/*.py; do echo "$$script"; $(BIN)/python $$script || exit 1; done

lint: $(VENV)/ready     ## run ruff and pyright
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright

site: $(VENV)/ready     ## build the documentation in site/; execute the notebook of each method once
	for method in $$($(BIN)/python -c "from workbench.config import CONFIGS; print(*CONFIGS)"); do $(BIN)/python -m workbench run $$method --html || exit 1; done
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html. Its search needs a server: $(BIN)/python -m http.server -d site"

pictures: $(VENV)/ready $(VENV)/browser  ## take the pictures of README.md anew, light and dark
	$(BIN)/python docs/_pictures.py

gallery: $(VENV)/ready $(VENV)/browser   ## execute the notebooks; write copies with images to docs/gallery/
	$(BIN)/python docs/_gallery.py

clean:                  ## remove the environment; runs are kept
	rm -rf $(VENV)

# Made first: two of the targets below may be made at once.
$(VENV):
	mkdir -p $@

# --no-compile: Python compiles a module when it first loads it, and most of them it never loads.
$(VENV)/ready: pyproject.toml constraints.txt | $(VENV)
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || (echo "$(PYTHON) is not Python 3.11 or newer: name one, as in make PYTHON=python3.13 demo"; exit 1)
	@echo "Creating $(VENV): about 5 minutes and 2 GB, mostly torch (with CUDA several GB more); pip prints nothing meanwhile."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@
	@echo "Created $(VENV). 'source $(BIN)/activate' adds the workbench command to the PATH."

# The browser tests need Chromium; on Debian and Ubuntu it is installed with apt-get if it is missing,
# beside the packages of Python, since both wait for their downloads.
$(VENV)/browser: | $(VENV)
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) || echo "Chromium could not be installed; the browser tests will be skipped."
	touch $@

# The tests of sweeps on a cluster start a Slurm; it is installed in the same way, after Chromium,
# because two apt-get at once refuse to work.
$(VENV)/cluster: $(VENV)/browser
	command -v slurmctld >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge) || echo "Slurm could not be installed; its tests will be skipped."
	touch $@
