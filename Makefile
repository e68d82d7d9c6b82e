# Two commands do everything on a Debian machine with cargo: `make demo` and `make test`.
# What they do is written in xtask/; here is only what has to happen before xtask can be compiled.

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

.PHONY: help demo test test-cluster conformance fuzz bench bench-quick sizes clean ready-to-compile

help:
	@echo "make demo         bookinfo through the mesh: who spoke with whom, how well, at what cost (as root)"
	@echo "make test         every check, and every test on this machine (as root)"
	@echo "make test-cluster the mesh on a real Kubernetes: that of KUBECONFIG, or one that it boots (as root)"
	@echo "make conformance  the Gateway API's own suite for meshes, on the same (as root)"
	@echo "make fuzz         every fuzz target for 30 s"
	@echo "make bench        CPU, latency and memory beside the peers, against budgets.toml: 15 minutes (as root)"
	@echo "make bench-quick  the same in short, beside HAProxy alone: 4 minutes (as root)"
	@echo "make sizes        sizes and dependency counts against budgets.toml"
	@echo "make clean        remove everything that was built"

demo: ready-to-compile
	@cargo xtask demo

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

clean:
	cargo clean
	rm -rf fuzz/target results

ready-to-compile:
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
	@$(AS_OWNER) cargo build --quiet --package xtask
