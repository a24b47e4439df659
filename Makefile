# `make help` lists the targets. A fresh clone needs Python 3.11+ and Java 17+, nothing else.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CLASSES := $(VENV)/.classes
REWRITTEN := $(VENV)/.rewritten
SUITABLE_PYTHON = for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done
PYTHON ?= $(shell $(SUITABLE_PYTHON))
PROTO := src/magnetar/wire/proto
PROCESSES ?= $(if $(ARGS),0,3)
PARALLEL = --numprocesses $(PROCESSES) --dist loadscope --no-loadscope-reorder

# The processes of a test run share what one of them has compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test check unit format proto test-long test-memory test-chaos test-hostile interop sim transcripts docs bench reference python java types style

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | column -t -s '|'

setup: $(INSTALLED) ## create or update .venv

$(INSTALLED): pyproject.toml constraints.txt | python
	@echo "creating $(VENV): about a minute, once" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[demo,dev]' --constraint constraints.txt
	@$(BIN)/python -m compileall -q src  # pip does not compile an editable package
	@touch $@

python:
	@[ -n "$(PYTHON)" ] || { echo "error: no Python 3.11 or newer on the PATH" >&2; \
	  echo "hint: install one (Debian, Ubuntu: apt install python3 python3-venv), or run: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }

java: | python
	@PYTHONPATH=src $(PYTHON) -m magnetar.ops.java

$(CLASSES): $(INSTALLED) | java
	@$(BIN)/magnetar pipeline share-classes
	@touch $@

# pytest rewrites the assertions of all modules, which takes half a minute, and keeps the result.
$(REWRITTEN): $(INSTALLED)
	@$(BIN)/python -m pytest tests --collect-only --quiet >/dev/null || true  # the tests show the error
	@touch $@

demo: java setup ## three clusters, real flights, a planned switch and a kill (ARGS="--flights 20000"); ARGS=migrate: a tenant moves
	@$(BIN)/magnetar demo $(ARGS)

test: java setup ## all tests except the long suites, in three processes; 17 to 25 minutes (ARGS="-k name": in one)
	@$(MAKE) --no-print-directory --jobs 2 $(CLASSES) $(REWRITTEN)
	@$(BIN)/python -m pytest tests $(PARALLEL) $(ARGS)

test-long: java setup ## tests that take a minute, full-sized forms of others, the built packages, and the Helm chart
	@$(BIN)/python -m pytest tests -m long $(ARGS)

test-memory: setup ## memory of a broker over one hour, which must not grow (ARGS="--minutes 15 --settle-minutes 5")
	@$(BIN)/python -m bench.memory $(ARGS)

test-chaos: java setup ## kills and stops at random, replaced disks, power loss, an earlier commit, edits of metadata, a Spark cluster, a migration; 90 minutes
	@$(BIN)/python -m pytest tests -m chaos -rP $(ARGS)

test-hostile: java setup ## hostile clients and faults, and their effect on another client; 35 minutes (ARGS="-k garbage")
	@$(BIN)/python -m pytest tests/hostile -m hostile -rP $(ARGS)

interop: java setup ## tests with Apache Pulsar, which Maven downloads the first time, and its clients; 32 minutes
	@$(BIN)/python -m pytest tests/interop -m interop -rP $(ARGS)

sim: setup ## 10,000 simulated runs of 2 to 5 clusters, 1,000 of their metadata, then every mutant of the core (SEEDS=0:1000 JOBS=1)
	@$(BIN)/magnetar simulate --seeds $(or $(SEEDS),0:10000) --jobs $(or $(JOBS),$(shell nproc))
	@$(BIN)/magnetar simulate --metadata --seeds $(or $(SEEDS),0:1000) --jobs $(or $(JOBS),$(shell nproc))
	@$(BIN)/python -m pytest tests/sim -m long $(ARGS)

transcripts: java setup ## record the golden transcripts of Apache Pulsar again (ARGS="seek_by_id": only this one)
	@$(BIN)/python -m tests.golden.record $(ARGS)
	$(if $(ARGS),,@$(BIN)/python -m tests.golden.record_markers)

check: setup ## style, types and import contracts; one minute
	@$(MAKE) --no-print-directory --jobs 2 types style

types: setup
	@$(BIN)/mypy --num-workers auto

style: setup
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports

unit: setup ## the unit tests, which make test includes; 3 minutes
	@$(BIN)/python -m pytest tests/unit --quiet $(PARALLEL) $(ARGS)

format: setup ## format the tree with ruff
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

proto: setup ## generate the protobuf modules
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc --proto_path=src --python_out=src --mypy_out=quiet:src \
	  $(wildcard $(PROTO)/*.proto) src/magnetar/cursor/cursor.proto

reference: setup ## generate docs/reference from the code
	@$(BIN)/python -m reference

docs: setup ## build the documentation site in build/docs/site; refuses dead links
	@$(BIN)/python -m pip install --quiet --editable '.[docs]' --constraint constraints.txt
	@rm -rf build/docs && mkdir -p build/docs && cp docs/mkdocs.yml build/docs
	@$(BIN)/python -m reference.site build/docs/source
	@cd build/docs && $(CURDIR)/$(BIN)/zensical build --strict --config-file mkdocs.yml

bench: java setup ## compare Magnetar with Apache Pulsar, then measure links and jobs; 80 minutes (QUICK=1: 15; ARGS=--resume)
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(ARGS)
	@$(BIN)/python -m bench.ledger $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.acks $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.loop_turns $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.failover_duplicates $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.replicated_cost $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.metadata_latency $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.lookups $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.catch_up $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.idle_topics $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.hops $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.tls $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.spark_reads $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.audit $(if $(QUICK),--quick)
