# The commands for a Debian machine with cargo. xtask/ implements them; this file does what has to happen before xtask can be compiled.

SHELL := /bin/sh
.DEFAULT_GOAL := help

ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)

# Under sudo, cargo and its toolchains are those of the person who typed it, and so are the files it makes.
ifneq ($(ROOT)$(SUDO_UID),yes)
ifeq ($(ROOT),yes)
OWNER_HOME := $(shell getent passwd "$(SUDO_UID)" | cut -d: -f6)
AS_OWNER := setpriv --reuid=$(SUDO_UID) --regid=$(SUDO_GID) --init-groups env HOME=$(OWNER_HOME)
export CARGO_HOME ?= $(OWNER_HOME)/.cargo
export RUSTUP_HOME ?= $(OWNER_HOME)/.rustup
endif
endif
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# What compiling needs: .cargo/config.toml links with clang and lld.
COMPILING := $(strip $(if $(shell command -v clang),,clang) $(if $(shell command -v ld.lld),,lld) \
	$(if $(shell command -v cc),,gcc libc6-dev))

# What the demo runs, built by one cargo so that nothing is compiled twice. xtask/src/demo.rs has the same list.
DEMO := xtask leno-cli leno-control leno-proxy leno-testapp

.PHONY: help demo test test-cluster conformance fuzz bench bench-quick sizes release clean able-to-compile ready-to-compile

help:
	@echo "make demo         run bookinfo through the mesh, print traffic, latency and cost (as root)"
	@echo "make test         run every check, and every test that needs no cluster (as root)"
	@echo "make test-cluster test the mesh on the Kubernetes of KUBECONFIG, or on one that it boots (as root)"
	@echo "make conformance  run the Gateway API's suite for meshes on the same cluster (as root)"
	@echo "make fuzz         run every fuzz target for 30 s"
	@echo "make bench        compare CPU, latency and memory with other proxies and budgets.toml: 15 minutes (as root)"
	@echo "make bench-quick  compare with HAProxy only: 4 minutes (as root)"
	@echo "make sizes        compare sizes and numbers of dependencies with budgets.toml"
	@echo "make release      build archives, Debian package, images, SBOM and checksums into target/dist"
	@echo "make clean        remove everything that was built"

demo: able-to-compile
ifneq ($(ROOT),yes)
	@echo "make demo needs root, because each pod is a network namespace. Run: sudo make demo" >&2
	@exit 1
endif
	@echo "Building the programs of the demo, without the slow optimizations of a release. The first build takes about 4 minutes on two cores."
	@$(AS_OWNER) env LENO_COMMIT="$$($(AS_OWNER) git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" \
		cargo build --locked --profile demo $(addprefix --package ,$(DEMO))
	@$${CARGO_TARGET_DIR:-target}/demo/xtask demo --built

test: ready-to-compile
	@cargo xtask ci

test-cluster: ready-to-compile
	@cargo xtask test-cluster

conformance: ready-to-compile
	@cargo xtask conformance

fuzz: ready-to-compile
	@cargo xtask fuzz

bench: ready-to-compile
	@cargo xtask bench

bench-quick: ready-to-compile
	@cargo xtask bench-quick

sizes: ready-to-compile
	@cargo xtask sizes

release: ready-to-compile
	@cargo xtask release

clean:
	cargo clean
	rm -rf fuzz/target results

able-to-compile:
	@command -v cargo >/dev/null || { \
		echo "cargo is missing; https://rustup.rs installs it. If only root misses it: sudo env \"PATH=\$$PATH\" make …" >&2; exit 1; }
ifneq ($(COMPILING),)
ifeq ($(ROOT),yes)
	@echo "installing what compiling needs: $(COMPILING)"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(COMPILING)
else
	@echo "missing: $(COMPILING). Install with" >&2
	@echo "    sudo apt-get install -y $(COMPILING)" >&2
	@exit 1
endif
endif

ready-to-compile: able-to-compile
	@$(AS_OWNER) cargo build --quiet --package xtask
