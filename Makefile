# dprd: build, test, demonstrate, install. "make help" lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
CC ?= cc
BUILD ?= build
# The one place of the version. What it may look like: dprd/base/version.h.
VERSION := 0.1.0

PACKAGES := libnetfilter_queue libmnl libprotobuf-c libsystemd libsodium jansson libbpf
WARNINGS := -Wall -Wextra -Wshadow -Wpointer-arith -Wwrite-strings -Wformat=2 -Wvla \
	-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
HARDEN := -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE
CFLAGS ?= -O2 -g
# Asked once, and only when something is compiled.
PACKAGE_CFLAGS = $(eval PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES)))$(PACKAGE_CFLAGS)
ALL_CFLAGS = -std=gnu11 $(WARNINGS) $(if $(SAN),,$(HARDEN)) $(CFLAGS) $(SAN) \
	-I. -I$(BUILD) $(if $(DEBUG),-DDPRD_DEBUG) -DDPRD_VERSION='"$(VERSION)"' $(PACKAGE_CFLAGS)
ALL_LDFLAGS = $(LDFLAGS) $(SAN) -pthread $(if $(SAN),,-pie -Wl,-z,relro,-z,now)

# Debian's PATH of users lacks where bpftool is.
export PATH := $(PATH):/usr/sbin:/sbin

# Packages that are missing are named before anything is made, except for goals that need none or install them.
FREE_GOALS := help clean setup setup-% uninstall check check-% demo bench bench-% experiments results kernel-patch lab-shell
GOALS := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out $(FREE_GOALS),$(GOALS)),)
ifeq ($(filter setup setup-%,$(GOALS)),)
ifneq ($(shell CC='$(CC)' PATH='$(PATH)' tests/setup.sh can $(GOALS) || echo no),)
$(error packages are missing)
endif
endif
endif

# The sources of each program; what is named nowhere here goes into the library that all share.
MAINS := dprd/main.c dprd/dprctl/main.c loadcast/main.c
PROTO := $(BUILD)/loadcast/announce.pb-c
SKELETON := $(BUILD)/dprd/bpf/dprd.skel.h
SOURCES := $(sort $(shell find dprd loadcast -name '*.c' -not -name '*.bpf.c' -not -path 'dprd/sim/*' \
	-not \( -path 'dprd/web/*' -not -path 'dprd/web/core/*' \)))
LIBRARY := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAINS),$(SOURCES))) $(PROTO).o
PROGRAMS := $(addprefix $(BUILD)/bin/,dprd dprctl loadcast)
# Only dprctl has a screen: other programs are linked without that library.
LIBS = $(shell pkg-config --libs $(PACKAGES)) -lm -Wl,--as-needed $(shell pkg-config --libs ncursesw) -Wl,--no-as-needed
LIBS_LOADCAST = $(shell pkg-config --libs libprotobuf-c libsodium libmnl) -lm

# Commands are shown with V=1; else one short line for each file, and with -s nothing.
silent := $(findstring s,$(firstword -$(MAKEFLAGS)))
Q = $(if $(V),,$(if $(silent),@,@echo '  $(1) $@';))

UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))

# Objects of tests are kept: the next build needs them.
.SECONDARY:

.PHONY: all
all: $(PROGRAMS) lab-tools

.PHONY: help
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

$(PROTO).c $(PROTO).h &: loadcast/announce.proto
	@mkdir -p $(@D)
	$(call Q,PROTO)protoc-c --c_out=$(BUILD) $<

$(PROTO).o: $(PROTO).c
	$(call Q,CC   )$(CC) $(ALL_CFLAGS) -w -c -o $@ $<

# BPF programs know no C library; its headers ask which processor that would be for.
BPF_FLAGS = -O2 -g -target bpf -mcpu=v3 -Wall -Wextra $(BPF_WARNINGS) -I. -D__$(shell uname -m)__ \
	-I/usr/include/$(shell $(CC) -print-multiarch 2>/dev/null) -ffile-prefix-map=$(CURDIR)=.

$(BUILD)/%.bpf.o: %.bpf.c
	@mkdir -p $(@D)
	$(call Q,BPF  )clang $(BPF_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# It has the programs' variables, but not their types.
$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(call Q,SKEL )(printf '%s\n' '// NOLINTBEGIN' '#include "dprd/bpf/layout.h"' && bpftool gen skeleton $< && \
		echo '// NOLINTEND') >$@.new && mv $@.new $@

$(BUILD)/%.o: %.c | $(PROTO).h $(SKELETON)
	@mkdir -p $(@D)
	$(call Q,CC   )$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# It alone is compiled with the version.
$(BUILD)/dprd/base/version.o: Makefile

$(BUILD)/libdprd.a: $(LIBRARY)
# Files of several folders have the same name: appended, none takes another's place.
	@rm -f $@
	$(call Q,AR   )$(AR) qcs $@ $^

$(BUILD)/bin/dprd: $(BUILD)/dprd/main.o $(BUILD)/libdprd.a
	@mkdir -p $(@D)
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/bin/dprctl: $(BUILD)/dprd/dprctl/main.o $(BUILD)/libdprd.a
	@mkdir -p $(@D)
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/bin/loadcast: $(BUILD)/loadcast/main.o $(BUILD)/libdprd.a
	@mkdir -p $(@D)
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_LOADCAST)

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# Programs that the laboratory, the tests and the benchmarks use: one source file each.
LAB_TOOLS := $(patsubst %.c,$(BUILD)/%,$(filter-out %.bpf.c,$(wildcard tests/lab/*.c tests/bench/*.c)))
.PHONY: lab-tools
lab-tools: $(LAB_TOOLS)
$(BUILD)/tests/bench/progbench.o: $(BUILD)/tests/bench/progbench.skel.h
$(BUILD)/tests/bench/livegen.o: $(BUILD)/tests/bench/livegen.skel.h
$(BUILD)/tests/bench/tcsink.o: $(BUILD)/tests/bench/tcsink.skel.h
$(BUILD)/tests/bench/bare.o: $(BUILD)/tests/bench/bare.skel.h
$(LAB_TOOLS): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# A loadcast that announces another version, for the tests of mixed clusters. It takes version.o before the library's.
OTHER_LOADCAST := $(BUILD)/tests/lab/loadcast-other
lab-tools: $(OTHER_LOADCAST)
$(BUILD)/tests/lab/version-other.o: dprd/base/version.c
	@mkdir -p $(@D)
	$(call Q,CC   )$(CC) $(ALL_CFLAGS) -UDPRD_VERSION -DDPRD_VERSION='"99.9-other"' -MMD -MP -c -o $@ $<

$(OTHER_LOADCAST): $(BUILD)/loadcast/main.o $(BUILD)/tests/lab/version-other.o $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_LOADCAST)

## make setup        install the Debian packages that building, demonstrating and testing need (root); parts of it:
##                   setup-build, setup-deb and setup-demo (with what to build), setup-check (what make check needs),
##                   setup-all
.PHONY: setup setup-build setup-deb setup-demo setup-check setup-all
setup: setup-check
setup-build setup-deb setup-demo setup-check setup-all:
	@tests/setup.sh $(@:setup-%=%)

## make demo         raise a cluster in network namespaces, load it, compare policies, break things (root)
##                   KEEP=1 leaves it up; MODE=biactive: one address for all nodes
.PHONY: demo
demo: setup-demo
	@$(MAKE) --no-print-directory -s -j2 all
	@tests/lab/$(if $(MODE),demo-$(MODE),demo $(if $(KEEP),--keep))

## make lab-shell NODE=n1   a shell in a node of a kept demo (root)
.PHONY: lab-shell
lab-shell:
	@tests/lab/lab shell $(or $(NODE),$(error say which node: make lab-shell NODE=n1))

## make unit         unit tests: no root, seconds
.PHONY: unit
unit: $(UNIT_TESTS)
	@tests/unit/run $(UNIT_TESTS)

SAN_BUILD = BUILD=$(BUILD)/san CFLAGS='-O1 -g -fno-omit-frame-pointer' \
	SAN='-fsanitize=address,undefined -fno-sanitize-recover=all'

## make unit-san     the same under AddressSanitizer and UndefinedBehaviorSanitizer
.PHONY: unit-san
unit-san:
	@$(MAKE) --no-print-directory $(SAN_BUILD) unit

## make cluster      scenario tests on real namespaces, both planes (root); TESTS='-k drain' picks some
.PHONY: cluster
cluster: all
	@tests/cluster/run $(TESTS)

## make systemd      the units as installed, under a systemd in namespaces of its own, on both planes (root)
.PHONY: systemd
systemd: all
	@tests/systemd/run nfqueue bpf

## make deb-test     the packages: build, lintian, and in such a systemd: install, upgrade under load, remove, purge (root)
.PHONY: deb-test
deb-test:
	@tests/systemd/check-packages

## make check        set up, build, lint, the quick rung of all tests; closes with "N passed, N failed" (root)
.PHONY: check
check: setup-check
	@tests/check

## make check-all    the same, complete: everything that make check leaves out for its time, too (root)
.PHONY: check-all
check-all: setup-all
	@tests/check --all

## make lint         compilers' warnings as errors, clang-format, clang-tidy, cppcheck, shellcheck, layering;
##                   LINT_ALL=1: the slow analyzer on every file, not only on what changed
.PHONY: lint
lint: $(PROTO).h
	@tests/lint

## make fuzz T=60    every fuzzer for T seconds each; as root also the BPF programs against the C code
.PHONY: fuzz
fuzz: $(PROTO).c
	@tests/fuzz/run $(or $(T),60)
	@[ "$$(id -u)" -ne 0 ] || $(MAKE) --no-print-directory -s -j2 bpf-fuzz T=$(or $(T),60)

## make storm        the long storms: 10 minutes of SYN floods; 1,000 kills, 100 freezes, 100 upgrades; shared addresses
##                   for an hour on a busy host and for 100,000 SYNs under faults (root); ONLY="f21" picks some;
##                   ONLY=ways: ten minutes of filters, routes and web servers that fail; PLANE=nfqueue for that plane
.PHONY: storm
storm: all
	@STORM=long tests/cluster/run --plane $(or $(PLANE),bpf) -k "$(or $(patsubst ways,c20,$(ONLY)),c11 or c12 or f20 or f21)"

## make bench        measurements, interleaved and repeated (root); QUICK=1 for a short run
.PHONY: bench
bench: setup-demo
	@$(MAKE) --no-print-directory -s -j2 all
	@tests/bench/bench $(if $(QUICK),--quick)

include tests/model/model.mk
include tests/mutants/mutants.mk
include tests/bpf/bpf.mk
include tests/fuzz/fuzz.mk
include tests/kernel/lab.mk
include dprd/sim/sim.mk
include dprd/web/web.mk
include tests/experiments/surge/surge.mk
include tests/experiments/experiments.mk
include conf/install.mk

## make clean        remove everything that was built
.PHONY: clean
clean:
	rm -rf $(BUILD)

# The programs of "make check", built at once: its lanes build nothing side by side.
.PHONY: test-programs
test-programs: $(UNIT_TESTS) $(BPF_TESTS) $(BPF_FUZZER) $(KERNEL_PROGRAMS) $(SURGE)

-include $(shell find $(BUILD) -path $(BUILD)/deb -prune -o -type f -name '*.d' -print 2>/dev/null)
