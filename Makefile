# Commands for people; bare `make` lists them. What they do is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-matrix lint docs wheel image bench hosts clean
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
SOURCES := $(shell git ls-files crates python Cargo.toml Cargo.lock pyproject.toml 2>/dev/null)

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(INSTALLED) ## set everything up and train a small model on 2 processes
	@scripts/demo.sh

test: ## install what the tests need and run them all (about 45 minutes on two cores)
	@PYTHON=$(PYTHON) scripts/test.sh all

test-core: ## Rust tests only, about a minute
	@PYTHON=$(PYTHON) scripts/test.sh core

test-matrix: ## tests with old and new frameworks, gigabytes each; not part of `make test` (ROWS="torch-2.1 torch-newest")
	@PYTHON=$(PYTHON) scripts/test_matrix.sh $(ROWS)

lint: ## formatters, linters, type checker and the repository's own rules
	@PYTHON=$(PYTHON) scripts/test.sh lint

docs: ## build the documentation site into site/ (scripts/docs.sh serve: preview)
	@PYTHON=$(PYTHON) scripts/docs.sh

wheel: ## build the wheel into dist/
	@PYTHON=$(PYTHON) scripts/wheel.sh

image: wheel ## build the container image `horovod` (docs/guide/docker.md)
	@PYTHON=$(PYTHON) scripts/image.sh

bench: $(INSTALLED) ## measure the speed-up over gloo and the installed MPIs (installs torch)
	@scripts/bench.sh $(OPTIONS)

N ?= 2
hosts: $(INSTALLED) ## create a cluster of N hosts on this machine (as root; make hosts N=3)
	@PYTHON=$(PYTHON) scripts/hosts.sh $(N)

clean: ## remove everything that was built
	rm -rf target fuzz/target dist site $(VENV) $(VENV)-*

$(INSTALLED): $(SOURCES)
	@PYTHON=$(PYTHON) scripts/install.sh numpy
	@touch $@
