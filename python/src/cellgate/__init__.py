"""A real-time ATM host on a virtual clock.

``run`` runs a scenario, ``sweep`` many of them over any executor, ``experiment`` an
experiment of the papers. A run depends on nothing but its scenario: whoever runs it, the
numbers are the same.
"""

from ._native import Violation
from .lab import experiment, experiments, run, scenario_of
from .sweep import points, sweep

__all__ = ["Violation", "experiment", "experiments", "points", "run", "scenario_of", "sweep"]
