# make demo   two processes on this machine show what RDMA does
# make test   the tests with the race detector, in random order
# make check  the short tests of the library, without it: about a minute, or seconds when little has changed
# make soak   every test that draws from a seed, over new seeds for SOAK
# CONTRIBUTING.md explains the other targets.

GO          ?= go
TESTJOBS    ?= 4
# The limit for each package: on a machine ten times slower than others Go's ten minutes are not enough.
TESTLIMIT   ?= 40m
FUZZTIME    ?= 30s
FUZZJOBS    ?= $(shell nproc)
SOAK        ?= 10m
BENCHTIME   ?= 1s
# Each test program runs in a network of its own where that is allowed.
APART       ?= -exec $(CURDIR)/internal/netns/apart
# All packages, those first whose tests take longest: they begin first, so that none of them is left alone at the end.
PACKAGES    ?= ./transport ./roce/... ./bench/suite ./conformance/... ./cmd/internal/... ./...
# The programs that measure: make test leaves them to make test-bench.
BENCH        = ./bench/suite ./bench/...
UNMEASURED   = ./transport ./roce/... ./conformance/... ./cmd/internal/... $$(echo "$$list" | grep -v /goroce/bench/)
# The library, and the tests of its layout and documentation. Both name what they leave out, so that no new folder is forgotten.
LIBRARY      = ./transport ./roce/verbs ./roce/link/xdp ./roce/link/packet ./roce/... $$(echo "$$list" | grep -Ev '/goroce/(bench|cmd|conformance)/')
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: FORCE all build cross demo agent conform-self check check-all test test-bench test-modules test-page test-verbs test32 interop interop-quick bench bench-full bench-lab microbench sim-report fuzz labelled soak soak-service mutants prove prove-transport prove-cm prove-slots prove-grammar prove-grammar-cm prove-threads lint clean dist dist-c dist-check dist-modules dist-try verbs interop-verbs interop-verbs-quick suites

all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/roce ./cmd/roce

# That it still builds for other systems, and that vet finds nothing there. Some minutes when it is done for the first time.
cross:
	for on in windows/amd64 darwin/arm64 freebsd/amd64; do \
		export GOOS=$${on%/*} GOARCH=$${on#*/}; $(GO) build ./... && $(GO) vet ./... || exit 1; done

demo: build
	bin/roce demo

# The verbs agent, for the machine whose RDMA device is to be checked: docs/conform.md. Needs libibverbs-dev
# (Fedora: rdma-core-devel). AGENT_STATIC=1 needs the static libraries, which Debian has, and makes a program that runs on
# machines with another libibverbs, or none. FLUSH and ATOMIC WRITE are there if the headers have them: the
# names are enumerators, which the preprocessor cannot see.
AGENT_CC ?= cc
agent:
	@mkdir -p bin
	@have=$$(echo '#include <infiniband/verbs.h>' | $(AGENT_CC) -E -) || { echo "no infiniband/verbs.h: install libibverbs-dev (Debian) or rdma-core-devel (Fedora)"; exit 1; }; \
	set -- ; \
	case "$$have" in *IBV_WR_FLUSH*) set -- "$$@" -DHAVE_FLUSH;; esac; \
	case "$$have" in *IBV_WR_ATOMIC_WRITE*) set -- "$$@" -DHAVE_ATOMIC_WRITE;; esac; \
	if [ -n "$(AGENT_STATIC)" ]; \
	then $(AGENT_CC) -std=gnu11 -O2 -static -DRDMA_STATIC_PROVIDERS=all "$$@" -o bin/verbsd conformance/lab/agent/*.c $$(pkg-config --static --libs libibverbs); \
	else $(AGENT_CC) -std=gnu11 -O2 "$$@" -o bin/verbsd conformance/lab/agent/*.c -libverbs; fi && echo bin/verbsd

# All checks of roce conform against another process on this machine: no root, no container.
conform-self: build
	bin/roce conform --self

# Tests live for seconds, and machines have memory: with less garbage collection they, the compiler and the linker take a sixth
# less processor time.
check check-all test test-bench test32: export GOGC = 400

# Go keeps the results of packages that have not changed. More packages at a time
# than there are processors: the tests of links, tools and benchmarks mostly wait. What
# vet finds make lint finds, too: it would look at every dependency here. Not $(APART): Go keeps no results of
# programs that others start. The tools, the conformance suite and the benchmarks take half of the time to compile and
# link, and change less often: check-all has them.
check:
	list=$$($(GO) list ./...) && $(GO) test -short -vet=off -p $(TESTJOBS) $(LIBRARY)

check-all:
	$(GO) test -short -vet=off -p $(TESTJOBS) $(PACKAGES)

# What has no goroutines, or takes long under the race detector and finds no more there, does part of its work here
# (seeds.Fewer, seeds.Long, seeds.Race) and all of it in test32. By default the race detector lets every process sleep for a
# second before it ends, of which there are hundreds: a race is told of when it happens, and needs no such second.
test test-bench: export GORACE = atexit_sleep_ms=0
test:
	list=$$($(GO) list ./...) && $(GO) test $(APART) -race -shuffle=on -timeout $(TESTLIMIT) -vet=off -p $(TESTJOBS) -parallel $(TESTJOBS) $(UNMEASURED)

# The same for the programs that measure.
test-bench:
	$(GO) test $(APART) -race -shuffle=on -timeout $(TESTLIMIT) -vet=off -p $(TESTJOBS) -parallel $(TESTJOBS) $(BENCH)

# The modules beside the main one, which have dependencies that it has not. Without a network and their
# dependencies in the module cache there is nothing to test them with: that is said, and no failure. The simulated
# applications do more without the race detector.
test-modules:
	@for m in roce/prometheus bench/apps; do \
		if (cd $$m && $(GO) mod download 2>/dev/null); \
		then (cd $$m && $(GO) vet ./... && $(GO) test -race ./...) || exit 1; \
		     [ ! -d $$m/scale ] || (cd $$m && $(GO) test ./scale) || exit 1; \
		else echo "$$m: its dependencies are not to be had here: not tested"; fi; done

# The page of roce explain in headless Chromium (Debian: chromium and poppler-utils): what it shows, keys, phones, print, 100,000
# packets, hostile captures, and accessibility with axe-core, which npm fetches. What is missing is skipped, and said.
# PAGEFLAGS="-shots DIR" keeps screenshots.
test-page:
	@cd cmd/internal/explain/browser && if $(GO) mod download 2>/dev/null; \
		then $(GO) vet ./... && $(GO) test -count=1 -v ./... $(PAGEFLAGS); \
		else echo "cmd/internal/explain/browser: its dependencies are not to be had here: not tested"; fi

# Programs in C on the libraries of "make verbs". Apart from test-modules, as they need rdma-core's headers, and take ten minutes and
# more on a machine that is busy.
test-verbs:
	cd cmd/verbs && $(GO) test -timeout 30m ./core ./tests/...

# As on a 32-bit processor, which most x86-64 kernels can run; the race detector cannot, so that all tests do all of their work. Where the
# kernel runs no such programs they are compiled and vetted for it, and what make test does in part is done in whole as 64-bit programs.
test32:
	@arch=$$(internal/netns/arch32); left=; vet=all; \
	if [ $$arch != 386 ]; then \
		echo "this kernel runs no 32-bit programs: all is compiled for i386, and the tests that make test shortens run for $$arch"; \
		GOARCH=386 CGO_ENABLED=0 $(GO) build ./... && GOARCH=386 CGO_ENABLED=0 $(GO) vet ./... && \
		vet=off left=$$($(GO) run ./conformance/cmd/lab seeds -left) || exit 1; \
	fi; \
	[ $$arch != 386 ] || export GOARCH=386 CGO_ENABLED=0; \
	$(GO) test $(APART) -shuffle=on -timeout $(TESTLIMIT) -vet=$$vet -p $(TESTJOBS) -parallel $(TESTJOBS) $${left:-$(PACKAGES)}

# libibverbs and librdmacm over goroce, for programs that are written for rdma-core: bin/verbs. Needs gcc, libibverbs-dev
# and librdmacm-dev, which nothing else here does.
verbs:
	$(MAKE) -C cmd/verbs OUT=$(CURDIR)/bin/verbs GO="$(GO)"

# A release: static programs, tarballs and packages for dpkg, with checksums, in bin/dist. Needs gcc, binutils, gcc-aarch64-linux-gnu and
# Debian's archive, from which it takes an old C library to build against. DISTFLAGS="-arch amd64" makes those for one machine;
# dist-check builds a second time, elsewhere and from nothing, and compares.
dist:
	GO="$(GO)" $(GO) run ./cmd/internal/dist $(DISTFLAGS)

# The libraries in C against the headers that a release has, for amd64: what of "make dist" takes seconds.
dist-c:
	GO="$(GO)" $(GO) run ./cmd/internal/dist -c -arch amd64

dist-check:
	GO="$(GO)" $(GO) run ./cmd/internal/dist -check $(DISTFLAGS)

# As those have it who say "go install .../cmd/roce@v1.2.3", or import roce/prometheus: from a proxy in a folder.
dist-modules:
	GO="$(GO)" $(GO) run ./cmd/internal/dist -modules

# What the README and docs/ci.md promise of these packages, in fresh Debian roots, with the time of each step. Needs mmdebstrap and uidmap.
dist-try:
	cmd/ci/try bin/dist

# Against the kernel's rdma_rxe in QEMU guests: see conformance/README.md.
# Everything on each link; interop-quick runs the same subset on each.
# Built and not "go run": that one does not pass on the signal that ends it.
# INTEROPFLAGS=-h lists the options.
bin/lab: FORCE
	$(GO) build -buildvcs=false -o $@ ./conformance/cmd/lab

interop: bin/lab
	bin/lab interop $(INTEROPFLAGS)

interop-quick: bin/lab
	bin/lab interop -quick $(INTEROPFLAGS)

# Debian's RDMA programs on the libraries of "make verbs", in namespaces of their own: see docs/verbs.md. INTEROPFLAGS=-h lists
# the options. What it needs is installed by apt, as root: compiler and headers here, the programs in folders of their own.
interop-verbs: bin/lab
	bin/lab interop-verbs -install
	$(MAKE) build verbs
	bin/lab interop-verbs $(INTEROPFLAGS)

# The share of it that .ci/run has: a few programs of Debian 12, one at a time, none of which depends on speed. A case that fails has two
# more attempts, which are told of.
interop-verbs-quick: bin/lab
	bin/lab interop-verbs -install
	$(MAKE) build verbs
	bin/lab interop-verbs -smoke -suite bookworm -jobs 1 -again 2 -timeout 20m $(INTEROPFLAGS)

# Test suites of others (UCX, libfabric) on these libraries, from sources that apt fetches and which are built below
# conformance/.cache: makes conformance/SUITES.md. SUITESFLAGS=-h lists the options. As root the first target installs what that needs.
suites: bin/lab
	bin/lab suites -install
	$(MAKE) build verbs
	bin/lab suites -table $(SUITESFLAGS)

# Against TCP and the bare links, between two network namespaces: makes
# docs/bench, in a few minutes, and docs/bench/unprivileged, the udp link as a user
# without capabilities has it; bench-full takes longer. Any user can run it, where users may make namespaces; what needs
# root, the xdp link and socket buffers beyond net.core.rmem_max, is left out then. BENCHFLAGS=-h lists the
# options; bench compare OLD NEW says what differs between two runs.
bench:
	$(GO) run ./bench/cmd/bench -o docs/bench $(BENCHFLAGS)
	$(GO) run ./bench/cmd/bench -o docs/bench/unprivileged -unprivileged -links udp -items single,scale $(BENCHFLAGS)

# Against the kernel's rxe in two emulated guests, added to the report of bench.
bench-lab:
	$(GO) run ./bench/cmd/bench -o docs/bench -lab $(BENCHFLAGS)

bench-full:
	$(GO) run ./bench/cmd/bench -o docs/bench -full $(BENCHFLAGS)

microbench:
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

# Congestion control in the simulated fabric: makes docs/congestion from
# scratch.
sim-report:
	$(GO) run ./bench/cmd/bench congestion -o docs/congestion

# Each fuzz target of each package, for FUZZTIME; FUZZJOBS of them side by side, on a processor each.
fuzz:
	@GO="$(GO)" internal/seeds/fuzz $(FUZZTIME) $(FUZZJOBS)

# How well roce/analyse explains captures with a known fault: 9,000 seeds, about two minutes, and the table anew.
labelled:
	$(GO) test ./roce/analyse -run '^TestLabelled$$' -count=1 -swarm 9000 -labelled.table $(CURDIR)/roce/analyse/LABELLED.md

# Each caller of seeds.Run, for an even part of SOAK: prints how many seeds each has
# done, and how to run one again that fails.
soak:
	$(GO) run ./conformance/cmd/lab seeds -for $(SOAK) $(SOAKFLAGS)

# A service for SOAK: a server and clients in processes of their own, connections that come
# and go, peers that are killed, stopped and started again, loss, a link that goes down and changes its MTU. Fails if anything grows, hangs or is
# wrong; as root between network namespaces. Light: a tenth of a core. SOAKFLAGS=-h lists the options.
soak-service: bin/lab
	nice -n 19 bin/lab soak -for $(SOAK) $(SOAKFLAGS)

# Do the tests find bugs? Plants some, drawn from a seed, one at a time, beside the work tree, and goes on where it was cut off.
# MUTANTFLAGS=-h lists the options; MUTANTFLAGS="-n 3 mem" is short, and MUTANTFLAGS="-report FILE" writes a table.
mutants:
	$(GO) run ./conformance/cmd/lab mutants $(MUTANTFLAGS)

# Every schedule of small programs, long runs of the grammar, and seeds of threads: some three hours of one processor. The parts
# stand alone: make prove -j2. The tables of what was covered go to bin/prove. The searches end at PROVESTATES states of a program;
# one of the CM takes a millisecond. Each seed of threads is a quarter of a second.
PROVESTATES   ?= 500000
PROVECMSTATES ?= 100000
PROVESEEDS    ?= 10000
prove: prove-transport prove-cm prove-slots prove-grammar prove-grammar-cm prove-threads
prove-transport:
	mkdir -p bin/prove && rm -f bin/prove/transport.md
	$(GO) test ./transport -run 'TestEverySchedule$$' -every -v -timeout 0 -states $(PROVESTATES) -covered "$(CURDIR)/bin/prove/transport.md"
prove-cm:
	mkdir -p bin/prove
	$(GO) test ./roce/rdmacm/cm -run 'TestEverySchedule$$' -every -v -timeout 0 -states $(PROVECMSTATES) -table "$(CURDIR)/bin/prove/cm.md"
prove-slots:
	mkdir -p bin/prove
	$(GO) test ./roce/internal/slots -run 'TestEverySchedule$$' -every -v -timeout 0 -states $(PROVESTATES) -table "$(CURDIR)/bin/prove/slots.md"
prove-grammar:
	$(GO) test ./conformance/grammar -run 'TestLong$$' -v -timeout 0 -args -grammar.packets 1000000000 -grammar.life 250000
prove-grammar-cm:
	$(GO) test ./conformance/grammar -run 'TestLongCM$$' -v -timeout 0 -args -grammar.messages 20000000 -grammar.life 250000
prove-threads:
	$(GO) test ./roce/link/sim -run 'TestThreadsSwarm$$' -swarm $(PROVESEEDS) -v -timeout 0

lint:
	@out=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); if [ -n "$$out" ]; then echo "gofmt these files:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

clean:
	rm -rf bin conformance/out
