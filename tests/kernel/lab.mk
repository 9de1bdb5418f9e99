# SPDX-License-Identifier: GPL-2.0-or-later
# Guests with kernels of their own: tests of the kernel module, and the yardstick against IPVS.

KERNEL_TOOLS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/kernel/bench/*.c tests/kernel/biactive/*.c))
KERNEL_PROGRAMS := $(PROGRAMS) $(BUILD)/tests/lab/echoserver $(BUILD)/tests/bench/connclient \
	$(BUILD)/tests/bpf/test_stack $(KERNEL_TOOLS)

$(KERNEL_TOOLS): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# The part of check-kernel in "make check".
.PHONY: check-kernel-short
check-kernel-short: setup-check $(KERNEL_PROGRAMS)
	@BUILD=$(BUILD) tests/kernel/check-kernel uml

## make kernel-cache where built kernels of guests are kept (KERNEL_CACHE=directory), and which
.PHONY: kernel-cache
kernel-cache:
	@BUILD=$(BUILD) tests/kernel/uml/build-uml -l

## make check-kernel tests in guests: own kernel (UML), Debian's stock kernel (qemu); no root; STAGES="uml debug qemu qemu2", LONG=1
.PHONY: check-kernel
check-kernel: setup-all $(KERNEL_PROGRAMS)
	@BUILD=$(BUILD) LONG=$(LONG) tests/kernel/check-kernel $(STAGES)

## make bench-kernel instructions of a packet and connections/s against IPVS, in a guest; no root; QUICK=1: shorter
.PHONY: bench-kernel
bench-kernel: setup-all $(KERNEL_PROGRAMS)
	@BUILD=$(BUILD) tests/kernel/bench-kernel $(if $(QUICK),--quick)

## make kernel-patch the in-tree patch of the module, for the unpacked kernel source LINUX=directory
.PHONY: kernel-patch
kernel-patch:
	@test -d "$(LINUX)" || { echo "name the unpacked kernel source: make kernel-patch LINUX=directory" >&2; exit 2; }
	@mkdir -p $(BUILD)
	@kernel-patch/make-patch "$(LINUX)" >$(BUILD)/biactive.patch
	@echo "$(BUILD)/biactive.patch"
