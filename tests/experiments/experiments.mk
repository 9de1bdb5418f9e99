# SPDX-License-Identifier: GPL-2.0-or-later
# The papers' experiments on clusters in network namespaces, and the tests of their pure parts.

## make experiments  tables and figures of the papers into build/experiments/ (root; hours); QUICK=1 for under
##                   15 minutes, ONLY="table1 sweep" picks some, RESUME=1 goes on where it was interrupted
.PHONY: experiments
experiments: setup-demo
	@$(MAKE) --no-print-directory -s -j2 all
	@tests/experiments/experiments $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume) \
		$(if $(REPETITIONS),--repetitions $(REPETITIONS))

## make results      the whole experiments of build/experiments, with tables and figures, into docs/results
.PHONY: results
results:
	@tests/experiments/results --from $(BUILD)/experiments

## make experiments-test   tests of the experiments' statistics, plans and reports: no root, seconds
.PHONY: experiments-test
experiments-test: sim
	@tests/experiments/run-tests
