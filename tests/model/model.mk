# SPDX-License-Identifier: GPL-2.0-or-later
# The Spin model of ownership with leases (docs/biactive.md).

## make model        the model of bi-active ownership, and faulty copies that must fail: no root, a minute
.PHONY: model
model:
	@BUILD=$(BUILD) tests/model/run-model
