# SPDX-License-Identifier: GPL-2.0-or-later
# Packets through the BPF programs: fixtures (tests/bpf/test_*.c) and the differential fuzzer.

BPF_TESTS := $(patsubst tests/bpf/%.c,$(BUILD)/tests/bpf/%,$(wildcard tests/bpf/test_*.c))
BPF_TEST_OBJECTS := $(patsubst %,$(BUILD)/tests/bpf/%.o,craft frame plane site fixture tap live)
BPF_FUZZER := $(BUILD)/tests/bpf/fuzz_bpf
BPF_FUZZER_OBJECTS := $(patsubst %,$(BUILD)/tests/bpf/%.o,craft frame plane input input_site model model_forward \
	model_shared model_cluster fuzz_report)

$(BPF_TESTS): $(BUILD)/tests/bpf/%: $(BUILD)/tests/bpf/%.o $(BPF_TEST_OBJECTS) $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

$(BPF_FUZZER): $(BUILD)/tests/bpf/fuzz_bpf.o $(BPF_FUZZER_OBJECTS) $(BUILD)/libdprd.a
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

## make bpf-test     packets through the BPF programs, and these against the C model (root)
.PHONY: bpf-test
bpf-test: $(BPF_TESTS) $(BPF_FUZZER)
	@tests/bpf/run $(BPF_FUZZER) $(BPF_TESTS)

## make bpf-fuzz T=60   the BPF programs against the C model for T seconds (root)
.PHONY: bpf-fuzz
bpf-fuzz: $(BPF_FUZZER)
	@SECONDS_MOST=$(or $(T),60) tests/bpf/run $(BPF_FUZZER)
