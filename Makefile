# Every target installs what it needs into .venv, from a bare Python 3.11 with pip. `make help` lists them.
# Private environments of the tests on newer Pythons are .venv-3.12 and so on.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

found   := $(shell scripts/pythons)
# The Pythons to test on; `make test PYTHONS=3.11` runs on one. The oldest and the newest run everything; what breaks on
# one between them breaks on those, too, or is in what the language does: there, only the tests below that need no kernel.
PYTHONS ?= $(foreach pair,$(found),$(firstword $(subst =, ,$(pair))))
between  = $(filter-out $(firstword $(PYTHONS)) $(lastword $(PYTHONS)),$(PYTHONS))
suites   = $(addprefix test-,$(filter-out $(between),$(PYTHONS))) $(addprefix quick-,$(between))
quick   := tests/unit tests/flow tests/docs
# Parallel pytest processes, and what else to tell pytest: `make test-3.11 WORKERS=0 PYTEST="-k mount -x"`.
WORKERS ?= 2
PYTEST  ?=

PY      := .venv/bin/python
venv     = .venv$(if $(filter-out 3.11,$1),-$1)
stamp    = $(call venv,$1)/.filled
python   = $(patsubst $1=%,%,$(filter $1=%,$(found)))
members := core $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
pins    := uv.lock scripts/bootstrap.py $(addsuffix /pyproject.toml,$(members))
empty   :=
space   := $(empty) $(empty)
# The tests start hundreds of daemons and commands: each would compile the sources anew, which takes longer than they do.
unexport PYTHONDONTWRITEBYTECODE
export MYPYPATH := $(subst $(space),:,typings $(addsuffix /src,$(members)) $(wildcard contrib/*/src))

# Where the servers of tests/kube are built: outside of the clone, so that the next one need not build them.
servers := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/volmgr/kube

# Mounts made by tests stay in a namespace of their own. Never a silent skip: who cannot have one is told.
apart   := unshare --mount --propagation private
private := $(if $(filter 0,$(shell id -u)),$(apart),$\
	@echo "make: the tests mount on the real kernel: run as root, or in a rootful container or VM" >&2; exit 1;)

.PHONY: help venv lint types test e2e-kube e2e-csi e2e-vm e2e-vm-full demo demo-container bench e2e-takeover lock protos clean
help: ## what can be made
	@sed -nE 's/^([a-z0-9-]+)[^:=]*:.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

venv: $(call stamp,3.11) ## the development environment, .venv
define environment
$(call stamp,$1): $(pins)
	@test -n "$(call python,$1)" || { echo "make: no python$1 on PATH or in pyenv" >&2; exit 1; }
	$(call python,$1) scripts/bootstrap.py $(call venv,$1)
	@touch $$@
endef
$(foreach version,$(sort 3.11 $(PYTHONS)),$(eval $(call environment,$(version))))

lint: venv ## ruff, layers, that uv.lock is current and names no host, and generated modules are what is generated
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	.venv/bin/lint-imports
	$(PY) scripts/lock.py --check
	$(PY) scripts/protos.py --check

types: venv ## mypy --strict and basedpyright strict, sources and tests
	$(PY) -m mypy $(wildcard $(addsuffix /src,$(members)) $(addsuffix /tests,$(members)) tests scripts contrib)
	.venv/bin/basedpyright

test: lint types $(suites) ## lint, types, all tests on the oldest and the newest Python, quick ones between; test-3.12: all
	@echo "make test: passed on Python $(PYTHONS)"

define tests
.PHONY: test-$1 quick-$1
test-$1: $(call stamp,$1)
	$(private) $(call venv,$1)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST)
quick-$1: $(call stamp,$1)
	$(private) $(call venv,$1)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST) $(quick)
endef
$(foreach version,$(sort 3.11 $(PYTHONS)),$(eval $(call tests,$(version))))

e2e-kube: venv ## Kubernetes mode on a real API server, built first: needs Go, and some 15 minutes once
	tests/kube/tools/build.sh "$(servers)"
	$(private) $(PY) -m pytest -n 0 $(PYTEST) tests/kube

# Each of the two processes in a namespace of its own: where one says that the machine was booted, the other is not.
e2e-csi: venv ## CSI drivers that mount, standalone and on a real API server, built first as for e2e-kube
	tests/kube/tools/build.sh "$(servers)"
	$(private) $(PY) -m pytest --dist loadgroup --tx "2*popen//python=$(apart) $(PY)" $(PYTEST) tests/csi

e2e-vm: venv ## storage servers and the kernel's own clients, in emulated machines: as root on Debian 12
	$(PY) -m tests.vm

e2e-vm-full: venv ## the same, with the faults that take long
	$(PY) -m tests.vm --full

demo: venv ## the product at work, in under a minute
	$(PY) tests/demo/demo.py

demo-container: venv ## a real container on volumes of a Pod: needs runc and busybox
	$(PY) tests/demo/container.py

bench: venv ## the numbers of docs/performance.md
	$(PY) -m tests.bench

e2e-takeover: venv ## kubelet's volume manager and volmgrd take over from each other: needs Go 1.26
	$(private) $(PY) -m pytest -n 0 $(PYTEST) tests/takeover

# Not `venv`: that fills the environment from the lock that is about to be made.
.venv/bin/uv:
	$(MAKE) venv
lock: .venv/bin/uv ## uv.lock from the pyproject files; UPGRADE=1 for newer versions, too
	$(PY) scripts/lock.py $(if $(UPGRADE),--upgrade)

protos: venv ## the messages of the vendored protos
	$(PY) scripts/protos.py

clean: ## what make made
	rm -rf .venv .venv-3.* dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
