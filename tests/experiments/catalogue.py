# SPDX-License-Identifier: GPL-2.0-or-later
"""All experiments, in the order in which they run and are shown."""
import importlib

NAMES = ("table1", "sweep", "hysteresis", "maxload", "rr_wrr", "herd", "director", "trace", "biactive")


def load_experiments():
    return {name: importlib.import_module(f"exp_{name}").EXPERIMENT for name in NAMES}
