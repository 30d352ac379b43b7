# make demo   sets itself up and shows a conversation being remembered, over real HTTP, on this machine alone
# make test   sets itself up and passes the tests
PYTHON ?= python3
VENV   ?= .venv
PY      = $(VENV)/bin/python
# Three workers, on two processors too: most tests wait for clocks, sockets and processes. A file stays on one worker; the
# longest come first (tests/conftest.py).
SUITE   = -q -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all test-system lint bench conformance stress seeds contract kill soak exits fuzz transcripts proxy-load lock clean setup setup-dev

setup: $(VENV)/.run
setup-dev: $(VENV)/.dev

$(VENV)/bin/python:
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "==> installing what runs ($$(grep -c == requirements.lock) locked packages; under a minute)"
	@$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "==> installing tests and linters ($$(grep -c == requirements-dev.lock) locked packages; one to two minutes)"
	@$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.run

demo: setup
	@$(PY) -m honcho_actors.cli demo

test: setup-dev
	@$(PY) -m pytest $(SUITE)

# Every supported Python that is present, each in an environment of its own.
test-all: test
	@for version in 3.11 3.12 3.13; do \
	    found=$$(.ci/find-python $$version) || { echo "==> CPython $$version is not here: skipped"; continue; }; \
	    [ "$$version" = "$$($(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ] && continue; \
	    echo "==> CPython $$version: $$found"; \
	    $(MAKE) --no-print-directory test PYTHON=$$found VENV=.venv-$$version || exit 1; \
	done

lint: setup-dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

bench: setup-dev
	@for name in $$(ls benchmarks/*.py | grep -v '/_' | xargs -n1 basename -s .py); do \
	    echo "==> benchmarks.$$name"; $(PY) -m benchmarks.$$name --json || exit 1; done

# At least 500 SIGKILLs under seeded faults (eight minutes at most); prints the states and `lost 0 duplicated 0 reordered 0`.
kill: setup-dev
	@$(PY) -m tests.kill.harness --kills 520 --least 55 --seconds 560

# 100,000 reply bodies at the client (two minutes); a share of them is in `make test`.
fuzz: setup-dev
	@HONCHO_FUZZ_BODIES=100000 $(PY) -m pytest $(SUITE) tests/honcho/test_fuzz.py

# All ten LoCoMo conversations through `demo --transcript`, read back with the official SDK (two minutes); three in `make test`.
transcripts: setup-dev
	@HONCHO_DEMO_ALL=1 $(PY) -m pytest -q tests/demo -k every_utterance

# Ten minutes of every fault at once over 5,000 conversations: prints how often each fired, fails when one fired fewer than
# 20 times, when a turn came back late, or when anything is left over (a share, a minute, is in `make test`).
soak: setup-dev
	@$(PY) -m tests.soak

# 200 processes leaving in every state that a process can leave in, eight at a time (each state once in `make test`).
exits: setup-dev
	@$(PY) -m tests.life.exits

# All 229 rows of the OTP table by id, on threads, on the loop and in the simulator; fails when a row that applies did not pass.
conformance: setup-dev
	@$(PY) -m tests.supervision.conformance

# Millions of asks racing stops, kills and crashes at a 1 us switch interval, in a process of its own (under 9 minutes).
stress: setup-dev
	@$(PY) -m tests.supervision.support.stress

# Every recorded exchange: replayed for three versions, then asked of `local`, and of HONCHO_CONTRACT_URL=http://... when it is set.
contract: setup-dev
	@$(PY) -m pytest $(SUITE) -rf tests/contract

# 10,000 random trees in the simulator, each lived twice: every promise checked, every replay identical.
seeds: setup-dev
	@$(PY) -m tests.supervision.support.seeds

# 500 streams through the proxy at once, two events a second each, for a minute (80 seconds); a share is in `make test`.
proxy-load: setup-dev
	@$(PY) -m tests.integrations.load

# A real browser on the status page, a real Prometheus on real processes, every alert on a fault that is really made, the newcomer's
# walk (two minutes). Installs chromium and prometheus from Debian's packages where they are not there.
test-system: setup-dev
	@.ci/need-system
	@HONCHO_SYSTEM=1 $(PY) -m pytest $(SUITE) -n 2 tests/system

lock:
	@.ci/lock

clean:
	@rm -rf .venv .venv-3.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build *.egg-info .state
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
