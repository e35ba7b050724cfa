# make demo   two processes on this machine show what RDMA does
# make test   vet, and all tests with the race detector, in random order
# The other targets are explained in README.md.

GO          ?= go
FUZZTIME    ?= 30s
BENCHTIME   ?= 1s
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: FORCE all build demo test test32 interop interop-quick bench bench-full bench-lab microbench sim-report fuzz lint clean

all: build

build:
	$(GO) build -trimpath -o bin/roce ./cmd/roce

demo: build
	bin/roce demo

test:
	$(GO) vet ./...
	$(GO) test -race -shuffle=on ./...

# The same on a 32-bit processor, which an x86-64 kernel can run; the race detector
# cannot.
test32:
	GOARCH=386 CGO_ENABLED=0 $(GO) vet ./...
	GOARCH=386 CGO_ENABLED=0 $(GO) test -shuffle=on ./...

# Against the kernel's rdma_rxe in QEMU guests: see conformance/README.md.
# Everything on each link; interop-quick runs the same subset on each.
# Built and not "go run": that one does not pass on the signal that ends it.
# INTEROPFLAGS=-h lists the options.
bin/interop: FORCE
	$(GO) build -buildvcs=false -o $@ ./conformance/cmd/interop

interop: bin/interop
	bin/interop $(INTEROPFLAGS)

interop-quick: bin/interop
	bin/interop -quick $(INTEROPFLAGS)

# Against TCP and the bare links, between two network namespaces: makes
# docs/bench, in a few minutes; bench-full takes longer. BENCHFLAGS=-h lists the
# options.
bench:
	$(GO) run ./bench/cmd/bench -o docs/bench $(BENCHFLAGS)

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
	$(GO) run ./bench/cmd/simreport -o docs/congestion

# Each fuzz target of each package, for FUZZTIME. The list is made by the test
# binaries themselves, so that no target is forgotten.
fuzz:
	@set -e; for pkg in $$($(GO) list ./...); do \
		list=$$($(GO) test -list '^Fuzz' $$pkg); \
		for f in $$(echo "$$list" | grep '^Fuzz'); do \
			echo "== $$pkg $$f"; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

lint:
	@out=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); if [ -n "$$out" ]; then echo "gofmt these files:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	@if $(GO) run $(STATICCHECK) -version >/dev/null 2>&1; then $(GO) run $(STATICCHECK) ./...; \
	else echo "staticcheck cannot be fetched ($(STATICCHECK)): left out"; fi

clean:
	rm -rf bin conformance/out
