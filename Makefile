# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# one thread a process: two processes with two threads each are many times slower on two cores
SINGLE := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1
BENCHMARKS := $(sort $(filter-out benchmarks/record.py benchmarks/peers.py benchmarks/gpu_%,$(wildcard benchmarks/*.py)))

.PHONY: demo test tests setup train evaluate report tune lint types layers audit proof coverage notebooks fresh nightly steady bench docs site release clean help
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: .venv/run.done  ## install what is needed and run the demo: ten portfolios by company size, 99 years
	$(BIN)/pacesetter demo

# without its cache mypy keeps one core busy for a minute or more: beside the tests none is idle
test: .venv/test.done lint layers  ## style, layers, then types and every test (2 processes)
	$(MAKE) --no-print-directory -j 2 types tests

tests: .venv/test.done
	$(SINGLE) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not proof"

setup: .venv/test.done  ## the developer's environment

train: .venv/run.done  ## one agent; ARGS="task=fleet agent=ppo data=sample" are its overrides
	$(BIN)/pacesetter train $(ARGS)

evaluate: .venv/run.done  ## RUN=runs/…: judge a run on its test set
	@test -n "$(RUN)" || { echo "error: RUN is missing; for example make evaluate RUN=runs/<time>-<name>-<hash>" >&2; exit 2; }
	$(BIN)/pacesetter evaluate $(RUN) $(ARGS)

report: .venv/run.done  ## the pipeline from bars to report.html; ARGS="data=sample" are its overrides
	$(BIN)/pacesetter run $(ARGS)

tune: .venv/test.done  ## search hyperparameters; ARGS="agent=ppo tune.trials=20" are its overrides
	$(BIN)/pacesetter train --launch tune $(ARGS)

lint: .venv/test.done  ## ruff: rules and format; codespell: spelling and our list of terms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell -D - -D tests/house/words.txt src docs examples scripts README.md CONTRIBUTING.md Makefile

types: .venv/test.done  ## mypy, strict
	$(BIN)/mypy

layers: .venv/test.done  ## packages import one way only
	$(BIN)/lint-imports

audit:  ## known vulnerabilities of the locked packages; needs pip-audit and a database, e.g. AUDIT="-s osv --osv-url URL"
	@command -v pip-audit > /dev/null || { echo "NOT AUDITED: pip-audit is missing; pip install pip-audit"; exit 1; }
	pip-audit --no-deps --disable-pip -r locks/all.txt $(AUDIT)

proof: .venv/test.done  ## the long evidence, or SHARE=0.1 of it; output goes to benchmarks/results/proof.txt
	@echo "# make proof SHARE=$(or $(SHARE),1) at commit $$(git rev-parse --short HEAD)" > benchmarks/results/proof.txt
	$(SINGLE) PROOF_SHARE=$(or $(SHARE),1) $(BIN)/python -m pytest -n 2 -m proof -rpP --show-capture=stdout --durations=0 --timeout 3600 | tee -a benchmarks/results/proof.txt
	@tail -n 1 benchmarks/results/proof.txt | grep passed | grep -qvE "failed|error"

coverage: .venv/test.done  ## how much of what trades the tests run: >= 90 % of market, rewards, envs and leadlag, >= 95 % of serving/risk
	$(SINGLE) $(BIN)/python scripts/covered.py --processes $(or $(PROCESSES),2)

notebooks: .venv/test.done  ## every notebook from top to bottom
	$(SINGLE) $(BIN)/python -m pytest -m proof tests/house/test_notebooks.py

# all of it runs, and a part that fails fails the whole at the end
nightly: .venv/test.done  ## what the nightly workflow runs: a share of the proofs, coverage, notebooks, freshness of stored episodes
	$(MAKE) --no-print-directory --keep-going SHARE=$(or $(SHARE),0.05) proof coverage notebooks fresh

fresh: .venv/test.done  ## whether every set of stored episodes below data/ is still of its bars and of this schema
	@for file in $(wildcard data/*.h5); do $(BIN)/pacesetter data fresh $$file || exit 1; done

steady: .venv/test.done  ## browser, kill and worker tests TIMES=30 times beside two busy processes; benchmarks/results/steady.txt
	@echo "# make steady at commit $$(git rev-parse --short HEAD)" > benchmarks/results/steady.txt
	$(SINGLE) $(BIN)/python scripts/steady.py $(or $(TIMES),30) | tee -a benchmarks/results/steady.txt
	@tail -n 1 benchmarks/results/steady.txt | grep -qx "$(or $(TIMES),30) of $(or $(TIMES),30) rounds passed"

bench: .venv/bench.done  ## every benchmark, recorded in benchmarks/results/
	for file in $(BENCHMARKS); do $(BIN)/python $$file --record || exit 1; done

docs: .venv/test.done site  ## changelog, architecture pictures, checks of the pages, and the site in build/site
	$(BIN)/python scripts/changelog.py
	$(BIN)/python scripts/architecture.py
	$(BIN)/python scripts/translations.py
	$(BIN)/python scripts/gallery.py --check
	$(BIN)/python -m pytest tests/test_docs.py tests/house

site: .venv-docs/docs.done  ## the documentation as a site in build/site: strict, and without network
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "look at it: python3 -m http.server --directory build/site"

release: .venv/test.done  ## VERSION=X.Y.Z: checks, tests, wheel and sdist, SBOM, licences, tag; DRY=1 shows the steps
	@test -n "$(VERSION)" || { echo "error: VERSION is missing; for example make release VERSION=0.2.0" >&2; exit 2; }
	$(BIN)/python scripts/release.py $(VERSION) $(if $(DRY),--dry-run)

clean:  ## remove the environment, caches and runs
	rm -rf .venv .venv-docs .mypy_cache .ruff_cache .hypothesis .import_linter_cache runs build dist src/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/pip.done:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	touch $@

# a lock with the digests of its files, so that pip refuses anything else
HASHED = grep == locks/$(1).txt | LC_ALL=C sort | LC_ALL=C join - locks/files.sha256

# torch comes by itself, pinned, with its own dependencies: the build that fits differs from machine to machine
.venv/%.done: locks/%.txt pyproject.toml | .venv/pip.done
	@echo "Installing from locks/$*.txt (a few minutes the first time) …"
	$(call HASHED,$*) > .venv/$*.hashed.txt
	$(PIP) install --no-deps --require-hashes -r .venv/$*.hashed.txt
	$(PIP) install torch==2.13.0 -c locks/$*.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	touch $@ $(if $(filter test,$*),.venv/run.done)

# the site's tools are apart: they read the package and do not import it
.venv-docs/docs.done: locks/docs.txt
	$(PYTHON) -m venv .venv-docs
	$(call HASHED,docs) > .venv-docs/docs.hashed.txt
	.venv-docs/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --require-hashes -r .venv-docs/docs.hashed.txt
	touch $@

# peers to measure beside ours; they pin old versions of libraries that are not used here, hence --no-deps
.venv/bench.done: .venv/test.done
	$(PIP) install --no-deps gym-anytrading==2.0.0 gym-trading-env==0.3.5 finrl==0.3.7
	touch $@
