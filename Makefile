# `make test` and `make demo` need only Python 3.11 or newer: they create .venv.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.set-up-at

# The stamp holds the directory in which .venv was created. A virtual environment cannot be moved: if the
# directory differs, or no set-up has finished yet, the rule below creates .venv again.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
CLEAR := --clear
endif

.PHONY: help setup demo test browser docs results notebooks lint format bench model soak torture fuzz audit sbom workflows clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## create .venv with the versions of constraints.txt (PYTHON=python3.12 picks another Python)
	@echo "Ready: . .venv/bin/activate puts visr on your path."

$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "visr needs Python 3.11 or newer, but $(PYTHON) is: $$("$(PYTHON)" --version 2>&1)." >&2; \
	  echo "Name another one, for example: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up .venv (a few minutes the first time) ..."
	@"$(PYTHON)" -m venv $(CLEAR) .venv
	@$(BIN)/python -m pip install --quiet --quiet -c constraints.txt -e ".[dev,atari,cluster,docs,explorer,export,hub,minatar,offline,video,wandb]"
	@pwd -P > $@

demo: $(STAMP) ## pre-train on the grid world without reward, ask for three things, write a page with films (about two minutes)
	@echo "Removing runs/demo of an earlier demo, if there is one."
	@rm -rf runs/demo
	$(BIN)/visr pretrain visr/Grid-v0 --preset demo --out runs/demo
	$(BIN)/python experiments/demo.py runs/demo

test: $(STAMP) browser ## run every test; the static checks are among them
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup --no-loadscope-reorder

browser: ## find Chromium for the explorer's tests, or install it with apt if run as root
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core; \
	} > /dev/null || echo "NO CHROMIUM, and it cannot be installed here: the explorer's browser tests WILL NOT RUN." >&2

docs: $(STAMP) ## build the documentation into build/docs; warnings are errors, nothing is fetched
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

results: $(STAMP) ## write the results pages and the numbers of README.md again, from results/ and the packed models
	$(BIN)/python docs/results_pages.py

notebooks: $(STAMP) ## execute the documentation's notebooks again and store their outputs
	$(BIN)/python docs/notebooks/execute.py

lint: $(STAMP) ## run the static checks only (ruff, pyright)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

format: $(STAMP) ## format the code with ruff
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(STAMP) ## measure the speed of everything but Atari, as ratios to its limits (about five minutes)
	for name in grid minatar replay infer refine explorer policy start; do $(BIN)/visr bench $$name || exit; done

model: $(STAMP) ## add a run to the package as a pre-trained model, with its card and film: make model RUN=runs/x NAME=grid [ABOUT="..."] [CANNOT="..."] [PRECISION=float16]
	$(BIN)/python experiments/pack_model.py "$(RUN)" --name "$(NAME)" --about "$(ABOUT)" $(if $(CANNOT),--cannot "$(CANNOT)") --precision "$(or $(PRECISION),auto)"
	$(BIN)/python docs/results_pages.py models.md

soak: $(STAMP) ## train on a local Ray cluster for about 20 minutes while killing its processes
	$(BIN)/python experiments/cluster_soak.py --json runs/soak.json

KILLS ?= 200
SEED ?= 0
MINUTES ?= 60

torture: $(STAMP) ## kill commands 200 times (KILLS=, SEED=), fail every call, lose power, damage files, train for an hour twice (MINUTES=)
	$(BIN)/python -m tests.robustness.torture.kills --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.robustness.torture.failpoints
	$(BIN)/python -m tests.robustness.torture.power_loss --seed $(SEED)
	$(BIN)/python -m tests.robustness.torture.damage --seed $(SEED)
	$(BIN)/python -m tests.robustness.torture.episodes
	$(BIN)/python -m tests.robustness.torture.soak --minutes $(MINUTES)
	$(BIN)/python -m tests.robustness.torture.soak --minutes $(MINUTES) --env ALE/Breakout-v5 --preset atari-small

GUIDED := .venv/atheris

$(GUIDED): $(STAMP)
	@$(BIN)/python -m pip install --quiet --quiet --no-deps --target $@ atheris==3.0.0 || { mkdir -p $@; \
	  echo "atheris cannot be installed here: no input will be guided by coverage." >&2; }

fuzz: $(GUIDED) ## feed 200,000 malformed inputs to every parser and to the explorer's websocket (half of them guided by coverage)
	PYTHONPATH=$(GUIDED) $(BIN)/python -m tests.robustness.fuzz --inputs $(or $(INPUTS),200000) --seed $(SEED)

TOOLS := .venv/tools
PINNED := pip-audit==2.10.1 cyclonedx-bom==7.5.0 zizmor==1.32.0

$(TOOLS): $(STAMP)
	@"$(PYTHON)" -m venv --clear $@ && $@/bin/python -m pip install --quiet --quiet $(PINNED) || { rm -rf $@; \
	  echo "This needs a package index, to install $(PINNED), and none could be reached." >&2; exit 1; }

audit: $(TOOLS) ## compare the pinned versions with published vulnerabilities (needs the network: the advisory service of PyPI)
	@$(TOOLS)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict --progress-spinner off || { \
	  echo "make audit: a version is vulnerable, or the advisory service of PyPI could not be reached (it says: not found); see above." >&2; exit 1; }

sbom: $(TOOLS) ## write sbom.json (CycloneDX): every pinned package with its version
	$(TOOLS)/bin/cyclonedx-py requirements constraints.txt --pyproject pyproject.toml --output-reproducible --of JSON --output-file sbom.json

workflows: $(TOOLS) ## check the release and CI workflows: pinned actions, permissions, injections
	$(TOOLS)/bin/zizmor --offline --strict-collection .github/workflows

clean: ## remove .venv, caches and builds; keep runs/
	rm -rf .venv sbom.json .pytest_cache .ruff_cache .hypothesis build dist
	find visr tests -name __pycache__ -type d -prune -exec rm -rf {} +
