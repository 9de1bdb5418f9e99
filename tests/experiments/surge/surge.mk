# SPDX-License-Identifier: GPL-2.0-or-later
# The workload generator of the experiments, and its tests.

SURGE := $(BUILD)/tests/experiments/surge/surge
SURGE_SOURCES := $(filter-out tests/experiments/surge/test_%,$(wildcard tests/experiments/surge/*.c))
SURGE_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/main.c,$(SURGE_SOURCES)))
SURGE_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/experiments/surge/test_*.c))

$(SURGE): $(BUILD)/tests/experiments/surge/main.o $(SURGE_OBJECTS) $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(SURGE_TESTS): $(BUILD)/tests/experiments/surge/%: $(BUILD)/tests/experiments/surge/%.o $(SURGE_OBJECTS) \
		$(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# "make unit" runs the list of tests as it is when all has been read.
UNIT_TESTS += $(SURGE_TESTS)
unit: $(SURGE_TESTS)
lab-tools: $(SURGE)

## make surge-test   the workload generator: its functions and laws, and runs against nginx on the loopback interface
.PHONY: surge-test
surge-test: $(SURGE) $(SURGE_TESTS)
	@tests/unit/run $(SURGE_TESTS)
	@SURGE=$(SURGE) tests/experiments/surge/test_run.py
