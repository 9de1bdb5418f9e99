# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of the pure parts find the modules of the experiments and of the laboratory."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lab")]
