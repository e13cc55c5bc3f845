# Words for people; bare `make` lists them. What a word does is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-matrix lint docs wheel image bench hosts clean
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
SOURCES := $(shell git ls-files crates python Cargo.toml Cargo.lock pyproject.toml 2>/dev/null)

help: ## list these words
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(INSTALLED) ## set everything up and train a small model on 2 processes
	@scripts/demo.sh

test: ## install what the tests need and run them all (about 25 minutes on two cores)
	@PYTHON=$(PYTHON) scripts/test.sh all

test-core: ## the quick loop: Rust tests only
	@PYTHON=$(PYTHON) scripts/test.sh core

test-matrix: ## old and new frameworks, gigabytes each, which `make test` leaves out (ROWS="torch-2.1 torch-newest")
	@PYTHON=$(PYTHON) scripts/test_matrix.sh $(ROWS)

lint: ## formatters, linters, type checker and the rules of the house
	@PYTHON=$(PYTHON) scripts/test.sh lint

docs: ## build the documentation site into site/ (scripts/docs.sh serve: show it, and rebuild on change)
	@PYTHON=$(PYTHON) scripts/docs.sh

wheel: ## build the wheel into dist/
	@PYTHON=$(PYTHON) scripts/wheel.sh

image: wheel ## build the container image `horovod` (docs/guide/docker.md)
	@PYTHON=$(PYTHON) scripts/image.sh

bench: $(INSTALLED) ## our speed as ratios against gloo and the MPIs that are installed (installs torch)
	@scripts/bench.sh $(OPTIONS)

N ?= 2
hosts: $(INSTALLED) ## open a cluster of N hosts on this machine (as root; make hosts N=3)
	@PYTHON=$(PYTHON) scripts/hosts.sh $(N)

clean: ## remove everything that was built
	rm -rf target fuzz/target dist site $(VENV) $(VENV)-*

$(INSTALLED): $(SOURCES)
	@PYTHON=$(PYTHON) scripts/install.sh numpy
	@touch $@
