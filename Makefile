# make demo    report jobs over real weather data: they run, fail, are retried, die, and are replayed
# make test    proves the product: unit tests, doc tests, and the integration tests with every promise
# make check   everything else that CI runs: lints, the tests that take long, and the checks below
# make long    the tests that take long: storms of kills, random operations, deliberate bugs, half a minute of the audit
# make public-api     compares the library's public API with the lists in tests/public-api; needs Rust 1.95
# make public-api-update   writes these lists, after an intended change
# make bench   what streamfleet costs, compared with the same work as raw Redis commands
# make deploy-check   checks the files under deploy/
# make sdk-check   tests the packages in sdk/ with the real program
# make drivers-check   tests the drivers for Laravel, Symfony, Django and NestJS, and the package for Ruby, beside the queues of their frameworks
# make codecs-check   passes encoded payloads from one language to another, with the real program
# make api-check  checks the description of the console's API, and uses the API through a client that is generated from it
# make clients-check  builds the example for Java, whose client is generated from the same description, and runs it with a real fleet
# make browser-check  uses the console in a real Chromium with a real fleet; make browser-check ARGS=--pictures also saves the docs' pictures
# make top-picture    records `top` at work for docs/pictures; takes three minutes
# make console-check  api-check, browser-check with each page at two widths, and console/check.sh; skips what cannot be installed
# make console-large  uses the API, and the console in a real Chromium, while a million jobs wait; make console-large JOBS=N for another number
# make grafana-check  checks the dashboards and alerts with a real fleet and a real Prometheus
# make bench-bullmq   jobs per second beside BullMQ and raw Redis commands: the table of the README; needs node and npm
# make servers-check  some of the tests, on Valkey 8, Valkey 9 and Redis 8
# make servers        all tests on each of these; takes half an hour
# make soak    ten minutes with jobs of ten thousand types, while neither series nor memory may grow (make long runs 36 s of it)
# make audit   every kind of job under every kind of fault, and checks that every promise held; see make audit ARGS=--help
# make sql-check      the history and the outbox on MariaDB, PostgreSQL and SQLite; installs the first two if it may
# make sql-check ARGS=--long   histories, outboxes and effects while workers and servers are killed a hundred times
# make takeover-check   drains queues of seven other systems, filled by their own libraries, while the import is killed; ARGS="2000 300" is short
# make sql-load       what a history with very many lives costs, and an outbox with very many rows; see make sql-load ARGS=--help
# make advisories     looks for known vulnerabilities of the dependencies; needs cargo-deny
# make image-check    builds and runs both images; needs root and several minutes

CARGO ?= cargo

.PHONY: demo test check check-code check-fleets long long-programs storms long-modules packages bench bench-bullmq lint lua public-api public-api-update advisories redis program deploy-check sdk-check drivers-check codecs-check api-check clients-check browser-check top-picture console-check console-large takeover-check grafana-check image-check servers servers-check soak audit sql-check sql-load

demo: redis
	$(CARGO) run --locked --profile demo --package streamfleet-demo -- $(ARGS)

bench: redis
	$(CARGO) build --release --locked --bin streamfleet
	./target/release/streamfleet bench $(ARGS)

bench-bullmq: redis
	$(CARGO) build --release --locked --bin streamfleet
	./tests/bullmq/compare.sh $(ARGS)

# The tests wait more than they compute, so more run at once than there are cores. `make check` runs other things beside those of `make long`,
# which then have a thread for each core.
test long: export RUST_TEST_THREADS ?= 10

# What takes long is in modules with the name `long`, or in the test programs of $(LONG), which `cargo test` runs only if they are named.
LONG := $(addprefix --test=,long storms audit databases)

test: redis
	$(CARGO) test --locked --all-features --no-fail-fast -- --skip ::long::

long: long-programs storms long-modules

long-programs:
	@$(MAKE) --no-print-directory redis
	$(CARGO) test --locked --all-features --no-fail-fast $(filter-out --test=storms --test=databases,$(LONG))

storms:
	@$(MAKE) --no-print-directory redis
	$(CARGO) test --locked --all-features --test=storms

long-modules:
	@$(MAKE) --no-print-directory redis
	$(CARGO) test --locked --all-features --no-fail-fast --tests -- ::long::

# At the end, alone, comes what looks at rates of a fleet.
check: redis check-code
	+$(MAKE) --no-print-directory check-fleets
	+$(MAKE) --no-print-directory grafana-check

# What only compiles. `.ci/run` runs it beside `make test` and `make grafana-check`.
check-code: lint public-api advisories

# What starts servers, fleets and other programs. The storms look at how long things take, so they come first, and nothing runs beside them.
# Then four at a time, because they wait more than they compute. What takes longest comes first, and neither of the first two has a prerequisite,
# which would let others begin before it. Each prints what it has to say when it has ended. The packages come last: their interpreters compute.
# Nothing that is wrong ends the others.
check-fleets:
	+@failed=; \
	  $(MAKE) --no-print-directory storms || failed=1; \
	  $(MAKE) --no-print-directory --jobs=4 --keep-going --output-sync=target \
	    long-modules long-programs servers-check deploy-check || failed=1; \
	  $(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target packages sql-check ARGS=--if-possible || failed=1; \
	  [ -z "$$failed" ]

# One after the other: they install packages.
packages:
	+$(MAKE) --no-print-directory lua
	+$(MAKE) --no-print-directory sdk-check
	+$(MAKE) --no-print-directory console-check

# With the examples, `cargo doc` gives the dependencies the features that they have already been compiled with.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets --all-features -- -D warnings
	$(CARGO) clippy --locked --all-features $(LONG) -- -D warnings
	$(CARGO) clippy --locked --package streamfleet --lib -- -D warnings
	$(CARGO) clippy --locked --package streamfleet-cli -- -D warnings
	$(CARGO) clippy --locked --package streamfleet-public-api -- -D warnings
	$(CARGO) clippy --locked --package streamfleet-demo -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --all-features --lib --examples

lua:
	@command -v luacheck >/dev/null || $(MAKE) --no-print-directory install-luacheck
	./tests/lua.sh

public-api:
	./tests/public-api.sh

# Known vulnerabilities of the dependencies. The database is a download, which a tool of its own makes: cargo install cargo-deny
advisories:
	@if command -v cargo-deny >/dev/null; then cargo-deny --all-features check advisories; \
	  else echo "skip  advisories: cargo-deny is not installed"; fi

public-api-update:
	./tests/public-api.sh --update

# By default, tests run on redis-server or valkey-server from the PATH. STREAMFLEET_TEST_REDIS selects another server. The targets below
# download other servers, install none, and report which ones are not available on this machine.
servers-check:
	@$(MAKE) --no-print-directory redis
	./tests/servers.sh $(SERVERS)

servers: redis
	./tests/servers.sh --all $(SERVERS)

# The checks below use the program that the tests build. Building it in another way would compile the library again, with other features.
program: redis
	$(CARGO) test --locked --all-features --no-run

sdk-check: PACKAGES ?= php python node
sdk-check: program
	for each in $(PACKAGES); do STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet sdk/$$each/check.sh || exit 1; done

# These install frameworks and run their own queues beside ours, which takes long.
drivers-check:
	$(MAKE) --no-print-directory sdk-check PACKAGES="laravel symfony hyperf webman django nestjs ruby"

codecs-check: program
	$(CARGO) build --locked --all-features --example codecs
	STREAMFLEET_BIN=target/debug/streamfleet STREAMFLEET_CODECS=target/debug/examples/codecs ./tests/codecs/check.sh

# These install what they need, as the checks of the packages do.
api-check: program
	STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet ./tests/console/api.sh

clients-check: program
	STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet ./examples/java/check.sh

browser-check: program
	STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet ./tests/console/browser.sh $(ARGS)

top-picture: program
	python3 -B tests/terminal/record.py $(CURDIR)/target/debug/streamfleet

console-check: program
	STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet ./tests/console/api.sh --if-possible
	STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet ./tests/console/browser.sh --quick --if-possible
	./console/check.sh --if-possible

console-large: program
	STREAMFLEET_TEST_WAITING=$(or $(JOBS),1000000) $(CARGO) test --locked --all-features --test operators -- --nocapture --test-threads=1 console::api::large
	STREAMFLEET_BIN=$(CURDIR)/target/debug/streamfleet ./tests/console/browser.sh --large $(or $(JOBS),1000000)

# These install MariaDB and PostgreSQL, whose servers only the tests use.
sql-check: redis
	./tests/databases/check.sh $(ARGS)

# The number of rows is the last word of ARGS="--outbox 100000".
takeover-check: program
	./tests/takeover/check.sh $(ARGS)

sql-load: redis
ifneq ($(filter --outbox,$(ARGS)),)
	STREAMFLEET_TEST_ROWS=$(lastword $(ARGS)) $(CARGO) test --locked --release --all-features --package streamfleet-cli --test databases -- --nocapture --test-threads=1 long::relay
else
	$(CARGO) test --quiet --locked --release --package streamfleet-sql --test load -- $(ARGS)
endif

deploy-check:
	./deploy/check.sh
	./deploy/prometheus/check.sh

grafana-check: program
	./grafana/check.sh

soak: redis
	STREAMFLEET_TEST_SOAK_SECONDS=600 $(CARGO) test --locked --release --test long -- --nocapture soak::

audit: redis
	$(CARGO) test --quiet --locked --release --all-features --test audit -- $(ARGS)

image-check: redis
	./deploy/check/image.sh

# Only a server binary is needed: demo, tests and bench start their own private servers.
redis:
	@command -v "$${STREAMFLEET_TEST_REDIS:-redis-server}" >/dev/null || command -v valkey-server >/dev/null || $(MAKE) --no-print-directory install-redis

# install PACKAGE… and the program that it brings
define install
	@command -v apt-get >/dev/null || { echo "streamfleet needs $(2); install it with your system's package manager"; exit 1; }
	@sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  command -v $${sudo:-true} >/dev/null || { echo "streamfleet needs $(2): as root, run apt-get install $(1)"; exit 1; }; \
	  echo "installing $(1) from the system's packages"; \
	  $$sudo apt-get update -qq && \
	  RUNLEVEL=1 $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null || { \
	    echo "$(1) could not be installed; install it by hand and try again"; exit 1; }
endef

.PHONY: install-redis install-luacheck
install-redis:
	$(call install,redis-server redis-tools,redis-server (7.0 or later) or valkey-server on the PATH)

install-luacheck:
	$(call install,lua-check,luacheck on the PATH to lint the scripts)
