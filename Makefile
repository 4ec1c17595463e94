# Everything a developer types. `make` alone lists it; the text after ## is the list, and ##@ begins a group.
.DEFAULT_GOAL := help
.PHONY: run test help check format lint types imports test-all test-16 without coverage programs docs site pictures typescript lock release clean bench bench-against prove damage chaos chaos-defects ha failover environment dev-environment

# `make run PYTHON=/path/to/python3` chooses the Python; otherwise the first of 3.11 or later is taken.
PYTHON ?=
export PYTHON
# Compiled sources are kept: each worker of pytest and each process that a test starts would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

##@ Start

run: environment ## Run everything on this machine until Ctrl-C (PORT, PIXCONNECT_HOME)
	@.venv/bin/pixconnect run --end-with-parent

test: dev-environment ## Run the tests that each change must pass
	@.venv/bin/pytest -n auto --dist loadgroup -q -m "not long or each_change"

help: ## List what can be made
	@awk -F ':.*## ' '/^##@ /{print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  make %-16s%s\n", $$1, $$2}' Makefile

##@ Check a change

check: lint types imports test ## Lint, types, import rules, tests

format: dev-environment ## Put the code into its form
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

lint: dev-environment ## Check format, common mistakes and form
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .
	@.venv/bin/python -m scripts.check_form

types: dev-environment ## Check the types
	@.venv/bin/pyright

imports: dev-environment ## Check that imports go down
	@.venv/bin/lint-imports
	@.venv/bin/lint-imports --config faces/pyproject.toml

test-all: dev-environment ## Run every test, or one part of them (PART=1/3); scripts/install_programs installs what they use
	@.venv/bin/pytest -n auto --dist loadgroup -q $(if $(PART),--part $(PART))

test-16: dev-environment ## Run the tests of tables, every statement and one journey on PostgreSQL 16
	@.venv/bin/pytest -n auto --dist loadgroup -q -m "not long or each_change" --postgres-version 16 \
		tests/kernel/tables tests/kernel/test_*.py tests/features/*/tables tests/features/*/test_tables.py \
		tests/kernel/flows/test_lost_commit.py tests/journeys/test_make_run.py::test_a_database_of_ones_own_is_used

without: dev-environment ## Remove an optional feature from a copy, and check what is left (FEATURE=people, all, each, commit or list)
	@.venv/bin/python -m scripts.without $(FEATURE)

coverage: dev-environment ## Run every test and report which lines and branches they reach
	@.venv/bin/coverage erase
	@.venv/bin/coverage run -m pytest -n auto --dist loadgroup -q
	@.venv/bin/coverage combine --quiet
	@.venv/bin/coverage report --skip-covered

programs: dev-environment ## Install the packages of the tests' Node.js and Go programs
	@.venv/bin/python -m support.toolchains

##@ Build

docs: dev-environment ## Write the files that are made from the program itself, such as pages of docs/reference
	@.venv/bin/python -m scripts.write_pages

site: dev-environment ## Build the documentation site, which the service then serves at /docs (half a minute)
	@.venv/bin/python -m scripts.site

pictures: dev-environment ## Take the pictures of docs/guides/console.md again, in a browser
	@PIXCONNECT_WRITE_PICTURES=1 .venv/bin/pytest -q tests/doors/console/test_pictures.py

typescript: ## Build the TypeScript client, and print the npm command that installs it
	@cd clients/typescript && npm ci --silent && file=$$(npm pack --silent) && echo "npm install $$PWD/$$file"

lock: dev-environment ## Renew requirements/*.txt to the newest versions allowed by pyproject.toml
	@.venv/bin/uv pip compile $(LOCKING) --extra wheel pyproject.toml --output-file requirements/run.txt
	@.venv/bin/python -m scripts.service_dependencies | .venv/bin/uv pip compile $(LOCKING) --constraint requirements/run.txt - --output-file requirements/service.txt
	@.venv/bin/python -m scripts.service_dependencies otel | .venv/bin/uv pip compile $(LOCKING) --constraint requirements/run.txt - --output-file requirements/otel.txt
	@.venv/bin/uv pip compile $(LOCKING) --constraint requirements/run.txt --extra dev --extra build --extra wheel --group site pyproject.toml --output-file requirements/dev.txt
	@.venv/bin/uv pip compile $(LOCKING) --constraint requirements/dev.txt --group site --output-file requirements/site.txt
	@echo 'patroni[etcd3,psycopg3]>=4.1' | .venv/bin/uv pip compile $(LOCKING) - --output-file requirements/ha.txt
	@echo 'pip' | .venv/bin/uv pip compile $(LOCKING) - --output-file requirements/pip.txt
	@echo 'pip-audit>=2.9' | .venv/bin/uv pip compile $(LOCKING) - --output-file requirements/audit.txt

release: dev-environment ## Make wheels, source, list of parts and checksums of the tagged commit, in dist
	@.venv/bin/python -m scripts.release

clean: ## Remove the environment and what tools left; never a PIXCONNECT_HOME
	@rm -rf src/pixconnect/site .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov

##@ Measure

bench: dev-environment ## Measure for about six minutes; bench/results.json and docs/reference/figures.md
	@.venv/bin/python bench/run.py

bench-against: dev-environment ## Measure what hot rows cost beside another commit, in pairs (COMMIT=...)
	@.venv/bin/python -m bench.against $(COMMIT)

##@ Break things, for long

prove: dev-environment ## Let money move while everything breaks and dies, and a million exchanges be mutated, for long (PIXCONNECT_PROVE_*)
	@PIXCONNECT_PROVE_EXAMPLES=$${PIXCONNECT_PROVE_EXAMPLES:-200} PIXCONNECT_PROVE_STEPS=$${PIXCONNECT_PROVE_STEPS:-40} \
		.venv/bin/pytest tests/journeys/test_money_is_conserved.py tests/journeys/test_money_is_conserved_there.py -q
	@PIXCONNECT_PROVE_EXCHANGES=$${PIXCONNECT_PROVE_EXCHANGES:-1000000} .venv/bin/pytest tests/platform/http/test_fuzz.py -q

damage: dev-environment ## Plant every kind of damage among a million entries, and find each by its rules (PIXCONNECT_DAMAGE_ENTRIES)
	@PIXCONNECT_DAMAGE_ENTRIES=$${PIXCONNECT_DAMAGE_ENTRIES:-1000000} \
		.venv/bin/pytest tests/features/proof/tables/test_damage.py -q -s -m long

chaos: dev-environment ## Let everything fail under load for minutes or hours, and judge what was seen (PIXCONNECT_CHAOS_SEED, _MINUTES, _THERE)
	@.venv/bin/python -m support.chaos

chaos-defects: dev-environment ## Plant known defects in a copy of the service, and let chaos find each (PIXCONNECT_CHAOS_DEFECT, _SEEDS, _MINUTES)
	@.venv/bin/python -m support.chaos.defects

ha: dev-environment ## Run three PostgreSQL under Patroni on this machine until Ctrl-C (PIXCONNECT_HA_HOME, _NETWORK)
	@.venv/bin/python -m support.ha

failover: dev-environment ## Let the database's machines fail under load, and judge what was seen (PIXCONNECT_FAILOVER_SEED, _ROUNDS, _KINDS)
	@.venv/bin/python -m support.failover

LOCKING := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--no-emit-package pixconnect-client

environment:
	@python=$$(scripts/find_python) && "$$python" scripts/make_environment.py run

dev-environment:
	@python=$$(scripts/find_python) && "$$python" scripts/make_environment.py dev
