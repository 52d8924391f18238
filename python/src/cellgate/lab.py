"""Runs of one scenario, and of the papers' experiments."""

import json
import os
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from . import _native

Scenario = Mapping[str, Any] | str | os.PathLike[str]


def run(scenario: Scenario, *, fast: bool = False, **changes: Any) -> dict[str, Any]:
    """Runs a scenario and gives its outcome, as nested dictionaries.

    ``scenario`` is a scenario as a dictionary, or the path of a TOML file, or of JSON if its name
    ends in ``.json``. ``changes`` are made before the run; a key says where, parts joined by ``.``
    or ``__``, a part of a list being an index or a name::

        run("star.toml", duration_ns=10_000_000, sources__hazard__traffic__paced__cell_s=50_000)

    Beside each adapter runs the reference that judges it, unless ``fast`` (as ``cellgate sim run
    --fast``): it takes time, and changes nothing but ``judged_cells``.

    Raises ``ValueError`` if the scenario makes no sense, ``Violation`` if something happened that
    must not.
    """
    return outcome(change(load(scenario), changes), fast)


def outcome(scenario: Mapping[str, Any], fast: bool) -> dict[str, Any]:
    """Runs a scenario as it is."""
    return json.loads(_native.run_json(json.dumps(scenario, default=_plain), fast))


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__} is nothing that a scenario has")


def scenario_of(seed: int) -> dict[str, Any]:
    """The random scenario that is drawn from ``seed``, as ``cellgate sim run --seed`` runs it::

        outcomes = [run(scenario_of(seed)) for seed in range(100)]

    What a scenario has under ``seed`` only says where it came from.
    """
    return json.loads(_native.scenario_json(seed))


def experiment(name: str, seed: int = 1, **settings: Any) -> dict[str, Any]:
    """Runs an experiment of the papers, as ``cellgate lab run NAME`` does: tables, figures,
    checks and notes.

    Raises ``ValueError`` for a name or a setting that it does not know, ``RuntimeError`` if the
    experiment panics.
    """
    changes = [(key, str(value)) for key, value in settings.items()]
    return json.loads(_native.experiment_json(name, seed, changes))


def experiments() -> list[str]:
    """The names of the papers' experiments."""
    return _native.experiment_names()


def load(scenario: Scenario) -> dict[str, Any]:
    """A scenario as a dictionary of its own."""
    if isinstance(scenario, Mapping):
        return deepcopy(dict(scenario))
    read = json.load if Path(scenario).suffix == ".json" else tomllib.load
    with open(scenario, "rb") as file:
        return read(file)


def change(scenario: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``scenario``, changed in place."""
    for key, value in changes.items():
        *way, last = key.replace("__", ".").split(".")
        place: Any = scenario
        for part in way:
            place = place[_index(place, part, key)]
        place[_index(place, last, key, new=True)] = deepcopy(value)
    return scenario


def _index(place: Any, part: str, key: str, new: bool = False) -> str | int:
    if isinstance(place, dict) and (new or part in place):
        return part
    if isinstance(place, list):
        names = [name(entry) for entry in place]
        if part in names:
            return names.index(part)
        if part.isdecimal() and int(part) < len(place):
            return int(part)
    raise ValueError(f"{key}: the scenario has no {part!r} there")


def name(entry: Any) -> str | None:
    """What an entry of a list goes by: its own name, or that of what it is about."""
    if isinstance(entry, Mapping):
        return entry.get("name", entry.get("connection", entry.get("on")))
    return None
