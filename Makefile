# `make` alone prints what there is. ARGS= is passed on to the command behind a target.
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=
# The first of these that is new enough; name another with PYTHON=.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# What the tests on real servers need beside that: environments of theirs, Node's packages, and
# nginx with nchan.
FOREIGN := tests/real/foreign
MCP1    := .venv-mcp1
DJANGO  := .venv-django
NODE    := $(FOREIGN)/node/node_modules
# What the decoder's benchmark compares it with.
BENCH   := .venv-bench
NCHAN   := PATH="$$PATH:/usr/sbin"; nginx -V 2>&1 | sed -n 's/.*--modules-path=\([^ ]*\).*/\1/p'

.PHONY: help setup demo test test-real servers sim bench check

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything the other targets need

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed: install it, or name it with PYTHON=" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY) ## play the incident: a naive client and fencepost on the same servers
	@$(BIN)/fencepost demo $(ARGS)

test: $(READY) ## run the tests
	$(BIN)/python -m pytest $(ARGS)

test-real: servers $(READY) $(MCP1)/.ready $(DJANGO)/.ready $(NODE)/.ready ## run the tests on servers from outside: Node, nginx, Django, an older SDK
	$(BIN)/python -m pytest $(FOREIGN) $(ARGS)

servers:
	@command -v node >/dev/null && command -v npm >/dev/null || \
		{ echo "make: node and npm are needed: apt-get install nodejs npm" >&2; exit 2; }
	@test -e "$$($(NCHAN))/ngx_nchan_module.so" || \
		{ echo "make: nginx with nchan is needed: apt-get install nginx-core libnginx-mod-nchan" >&2; exit 2; }

$(MCP1)/.ready: $(FOREIGN)/mcp1.lock
$(DJANGO)/.ready: $(FOREIGN)/django/requirements.lock
$(MCP1)/.ready $(DJANGO)/.ready:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed: install it, or name it with PYTHON=" >&2; exit 2; }
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(NODE)/.ready: $(FOREIGN)/node/package-lock.json | servers
	npm ci --silent --prefix $(FOREIGN)/node
	@touch $@

sim: $(READY) ## play seeds in the simulator, as in ARGS="--seeds 0:200"
	@$(BIN)/python -m fencepost.testing.simulator $(ARGS)

bench: $(READY) $(BENCH)/.ready ## decoder, bridge and pool beside plain ones, as ratios; ARGS="--only pool"
	@$(BIN)/python tests/benchmarks/run.py --bench-python $(BENCH)/bin/python $(ARGS)

$(BENCH)/.ready: tests/benchmarks/decoder.lock
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed: install it, or name it with PYTHON=" >&2; exit 2; }
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

check: $(READY) ## lint, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
