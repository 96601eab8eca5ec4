# CoDA: set-up, training and tests by one word each. `make help` lists them.

VENV ?= .venv
CODA := $(VENV)/bin/coda
# Handed to `coda train` where given: ROUNDS, OUT, SEED, REGIME, FAMILIES (separated by spaces), ARGS (anything else).
TRAIN_ARGS = $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(OUT),--out $(OUT)) $(if $(SEED),--seed $(SEED)) \
	$(if $(REGIME),--regime $(REGIME)) $(if $(FAMILIES),--families $(FAMILIES)) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup train test lint lock clean

help:
	@echo "make train       set up on first use, then co-evolve environments and a policy"
	@echo "                   ROUNDS=n OUT=folder SEED=n REGIME=no_expert|expert FAMILIES='stack pick_place'"
	@echo "                   ARGS='...' anything else that 'coda train --help' lists"
	@echo "make test        the whole test suite (ARGS='-k name' for a part of it)"
	@echo "make setup       only the set-up: virtual environment, ROS 2, interfaces"
	@echo "make lint        style checks"
	@echo "make lock        write requirements/*.lock anew from requirements/*.in (needs uv)"
	@echo "make clean       remove the virtual environment; runs and results stay"
	@echo
	@echo "PYTHON=python3.12  the Python to use (3.10 to 3.13; found by itself otherwise)"
	@echo "VENV=folder        the virtual environment (default .venv)"
	@echo "PIP_EXTRA_INDEX_URL=... PIP_INDEX_URL=...  where pip looks; torch from an index of CPU builds saves"
	@echo "                   some 5 GB of GPU libraries (the lock asks for the version only)"
	@echo "With a ROS 2 sourced, that one is used instead of wheels."

setup:
	@scripts/setup.sh --venv $(VENV)

train: setup
	@$(CODA) train $(TRAIN_ARGS)

test: setup
	@$(VENV)/bin/python -m pytest $(ARGS)

lint: setup
	@$(VENV)/bin/ruff check coda_nodes tests scripts launch

lock:
	@scripts/lock.sh $(ARGS)

clean:
	rm -rf $(VENV) $(VENV).lock
