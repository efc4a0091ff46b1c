# Step Time. `make` without a target lists what there is.
# CHAPTER=01 narrows a target to one chapter; PORT, RUNS and PYTHON are explained where they are listed.

PYTHON ?= python3
BOOK := .venv/bin/python

.PHONY: help install lab test html test-html test-long refresh sabotage steady traces lint

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

install:  ## make .venv with all the book needs (PYTHON=python3.13 chooses which Python)
	@command -v $(PYTHON) > /dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer, then run make again."; exit 1; }
	@$(PYTHON) -m book.install

lab: install  ## open the book in JupyterLab (PORT=8890 chooses the port)
	@$(BOOK) -m book.lab $(PORT)

test: install lint  ## run the helper's tests, the rules and every chapter (CHAPTER=01: one chapter)
	@$(BOOK) -m pytest --chapter=$(CHAPTER)

html: install  ## make pages for the web from the stored notebooks, in build/html
	@$(BOOK) -m book.web

test-html: install  ## make those pages and open each in a browser, in two themes and widths
	@$(BOOK) -m pytest tests/test_web.py -m web

test-long: install  ## diagnose every loop with a planted fault, and grade attempts at the capstone
	@$(BOOK) -m pytest -m long tests

refresh: install  ## run the chapters whose text changed and store their outputs (CHAPTER=01: that one anyway)
	@$(BOOK) -m book.refresh $(CHAPTER)

sabotage: install  ## break what each claim says and see it turn False (CHAPTER=01: one chapter)
	@$(BOOK) -m pytest tests/test_sabotage.py -v -m sabotage --chapter=$(CHAPTER)

steady: install  ## run chapters RUNS=4 times in all, half of it beside noisy neighbours, and table the claims
	@$(BOOK) -m book.steady --runs=$(or $(RUNS),4) --chapter=$(CHAPTER)

traces: install  ## record the small traces that chapter 03 reads again, and draw the opening picture from them
	@$(BOOK) -m book.traces
	@$(BOOK) -m book.picture

lint: install  ## check the code's style
	@$(BOOK) -m ruff check --quiet .
	@$(BOOK) -m ruff format --check --quiet .
