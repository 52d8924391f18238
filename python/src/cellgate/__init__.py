"""Connections with guaranteed rates over cellgate, a real-time ATM host, and its lab.

``connect`` opens a connection at the server of this machine.

``run`` runs a scenario on a virtual clock, ``sweep`` many of them over any executor, ``experiment``
an experiment of the papers. A run depends on nothing but its scenario: whoever runs it, the
numbers are the same.
"""

from ._native import Violation
from .connection import Connection, connect
from .errors import Ended, NoServer, Refused
from .lab import experiment, experiments, run, scenario_of
from .sweep import points, sweep

__all__ = [
    "Connection",
    "Ended",
    "NoServer",
    "Refused",
    "Violation",
    "connect",
    "experiment",
    "experiments",
    "points",
    "run",
    "scenario_of",
    "sweep",
]
