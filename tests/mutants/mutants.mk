# SPDX-License-Identifier: GPL-2.0-or-later
# Small faults in the source, each of which a named test must find (tests/mutants/table.py).

## make mutants      put small faults into the source, one by one: their tests must find them (root for all)
##                   N=10 draws some; ONLY="flow unit" names mutants, areas or kinds of stages
.PHONY: mutants
mutants:
	@BUILD=$(BUILD) N=$(N) tests/mutants/run $(ONLY)
