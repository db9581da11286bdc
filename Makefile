# Each target creates .venv if it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := train,lab,slurm,dev
export TOKENIZERS_PARALLELISM := false
export GOMP_SPINCOUNT ?= 5000

.PHONY: lab demo test bench lint site clean

lab: $(VENV)/ready      ## JupyterLab on the notebooks
	$(BIN)/python -m workbench lab

demo: $(VENV)/ready     ## SimCSE on the bundled world: before | after
	for seed in 0 1 2; do $(BIN)/python -m workbench run simcse --seed $$seed --html || exit 1; done
	$(BIN)/python -c "from workbench.views import *; print(seed_table(finished_runs('runs', 'world-test')).to_string())"

test: $(VENV)/ready $(VENV)/browser $(VENV)/cluster   ## every test, notebooks, browser and Slurm included
	$(BIN)/python -m pytest -n logical --dist loadgroup

bench: $(VENV)/ready    ## every benchmark; each prints its comparison
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

lint: $(VENV)/ready     ## ruff and pyright
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright

site: $(VENV)/ready     ## the documentation as a site, in site/, with every method's notebook executed (once)
	for method in $$($(BIN)/python -c "from workbench.config import CONFIGS; print(*CONFIGS)"); do $(BIN)/python -m workbench run $$method --html || exit 1; done
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html; its search needs a server: $(BIN)/python -m http.server -d site"

clean:                  ## remove the environment; runs are kept
	rm -rf $(VENV)

$(VENV)/ready: pyproject.toml constraints.txt
	@echo "building $(VENV): about 5 minutes and 2 GB, mostly torch; pip is silent meanwhile"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@
	@echo "built; 'source $(BIN)/activate' puts the workbench command on the path"

# The browser tests need a Chromium; on Debian and Ubuntu it is installed from the system's packages if it is missing.
$(VENV)/browser: $(VENV)/ready
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) || echo "no Chromium could be installed: the browser tests will be skipped"
	touch $@

# The tests of sweeps on a cluster start their own Slurm.
$(VENV)/cluster: $(VENV)/ready
	command -v slurmctld >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge) || echo "no Slurm could be installed: its tests will be skipped"
	touch $@
