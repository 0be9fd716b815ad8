# make demo    real report jobs over real weather data: run, fail, retry, die, come back
# make test    everything that CI checks
# make bench   what streamfleet costs, beside the same work as raw Redis commands
# make deploy-check   whether what is under deploy/ is right
# make grafana-check  whether dashboards and alerts are answered by a real fleet, with a real Prometheus
# make servers-check  a part of the tests on Valkey 8 and 9 and on Redis 8
# make servers        all of the tests on each of these; takes half an hour
# make soak    ten minutes with jobs of ten thousand types: neither series nor memory grow (make test takes 24 s of it)
# make audit   jobs of every kind under faults of every kind, and whether each promise held; make audit ARGS=--help says more (make test takes 30 s of it)
# make image-check    both images, built and run; takes root and minutes

CARGO ?= cargo

.PHONY: demo test bench lint unit redis deploy-check grafana-check image-check servers servers-check soak audit

demo: redis
	$(CARGO) build --release --locked
	./target/release/streamfleet demo

bench: redis
	$(CARGO) build --release --locked
	./target/release/streamfleet bench $(ARGS)

test: redis lint unit servers-check deploy-check grafana-check

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets --all-features -- -D warnings
	$(CARGO) check --locked --package streamfleet --lib
	$(CARGO) check --locked --package streamfleet --lib --features service
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --all-features

# The tests that kill and freeze processes measure how soon others take over, and one measures what hundreds of workers cost Redis, so
# they run by themselves; so does the short audit, which is a test program of its own. The others wait more than they compute, so more of them run at once than there may be cores.
unit: export RUST_TEST_THREADS ?= 4
unit:
	$(CARGO) test --locked --all-features -- --skip promises::promise_1 --skip kill::storm --skip kill::cron --skip promises::promise_5 --skip idle::an_idle --skip sabotage::each
	$(CARGO) test --locked --all-features --test it -- --test-threads=1 promises::promise_1 kill::storm kill::cron promises::promise_5 idle::an_idle sabotage::each

# By default they run on redis-server or valkey-server from the PATH; STREAMFLEET_TEST_REDIS names another. These fetch others, install
# none, and say what this machine cannot have.
servers-check: redis
	./tests/servers.sh $(SERVERS)

servers: redis
	./tests/servers.sh --all $(SERVERS)

deploy-check:
	./deploy/check.sh
	./deploy/prometheus/check.sh

# The program is the one that the tests have built.
grafana-check: redis
	$(CARGO) test --locked --all-features --no-run
	./grafana/check.sh

soak: redis
	STREAMFLEET_TEST_SOAK_SECONDS=600 $(CARGO) test --locked --release --test it -- --nocapture metrics::soak

audit: redis
	$(CARGO) test --quiet --locked --release --all-features --test audit -- $(ARGS)

image-check: redis
	./deploy/check/image.sh

# A server binary is all that is needed: demo, tests and bench start private servers of their own.
redis:
	@command -v "$${STREAMFLEET_TEST_REDIS:-redis-server}" >/dev/null || command -v valkey-server >/dev/null || $(MAKE) --no-print-directory install-redis

.PHONY: install-redis
install-redis:
	@command -v apt-get >/dev/null || { \
	  echo "streamfleet needs redis-server (7.0 or later) or valkey-server on the PATH; install it with your system's package manager"; exit 1; }
	@sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  command -v $${sudo:-true} >/dev/null || { echo "streamfleet needs redis-server: as root, run apt-get install redis-server"; exit 1; }; \
	  echo "installing redis-server from the system's packages"; \
	  $$sudo apt-get update -qq && \
	  RUNLEVEL=1 $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server redis-tools >/dev/null || { \
	    echo "redis-server could not be installed; install it by hand and try again"; exit 1; }
