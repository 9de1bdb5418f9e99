# SPDX-License-Identifier: GPL-2.0-or-later
# Programs that give stored inputs to the fuzzers' functions, of the objects that unit-san has: without libFuzzer.

REPLAY_PROGRAMS := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/tests/fuzz/replay_%,$(wildcard tests/fuzz/fuzz_*.c))

$(REPLAY_PROGRAMS): $(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: replay-programs replay-programs-san
replay-programs: $(REPLAY_PROGRAMS)
replay-programs-san:
	@$(MAKE) --no-print-directory $(SAN_BUILD) replay-programs
