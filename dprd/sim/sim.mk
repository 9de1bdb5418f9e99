# SPDX-License-Identifier: GPL-2.0-or-later
# The simulator, dpr-sim, and its unit tests.

SIM := $(BUILD)/bin/dpr-sim
SIM_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out dprd/sim/main.c,$(wildcard dprd/sim/*.c)))
SIM_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_sim_*.c))

all: $(SIM)

$(SIM): $(BUILD)/dprd/sim/main.o $(SIM_OBJECTS) $(BUILD)/libdprd.a
	@mkdir -p $(@D)
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(SIM_TESTS): $(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(SIM_OBJECTS) $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

## make sim          the simulator, build/bin/dpr-sim: a cluster that you do not have yet
.PHONY: sim
sim: $(SIM)
