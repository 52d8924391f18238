"""Many runs of one scenario, wherever an executor takes them."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from itertools import product
from typing import Any

from .lab import Scenario, change, load, outcome

Row = dict[str, Any]
Grid = Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]

RUNS_PER_TASK = 16
"""A run takes milliseconds: one at a time, most of the time would go into handing them over."""


def sweep(
    scenario: Scenario, grid: Grid, executor: Executor | None = None, *, fast: bool = False
) -> list[Row]:
    """Runs a scenario for every point of ``grid``; rows for a data frame, in the grid's order.

    ``grid`` gives the values of each change (all combinations are run, the last key fastest), or
    the changes of each point::

        sweep("star.toml", {"switches__s__queue_cells": [64, 256], "duration_ns": [10**6, 10**7]})

    A row has the changes of its point, and the outcome with the parts of a key joined by ``.``.
    ``executor`` is anything that has ``submit`` as ``concurrent.futures.Executor`` has it, such as
    ``Client.get_executor()`` of Dask; none: a pool of processes for this sweep. Rows are the same
    whatever it is. ``fast`` is that of ``run``.
    """
    scenario = load(scenario)
    tasks = [list(task) for task in _batched(points(grid), RUNS_PER_TASK)]
    if executor is not None:
        return _gather(scenario, tasks, executor, fast)
    with ProcessPoolExecutor() as pool:
        return _gather(scenario, tasks, pool, fast)


def points(grid: Grid) -> list[dict[str, Any]]:
    """The changes of each point of a grid."""
    if not isinstance(grid, Mapping):
        return [dict(point) for point in grid]
    return [dict(zip(grid, values)) for values in product(*grid.values())]


def _batched(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _gather(scenario: Row, tasks: list[list[Row]], executor: Executor, fast: bool) -> list[Row]:
    futures = [executor.submit(_rows, scenario, task, fast) for task in tasks]
    return _alike([row for future in futures for row in future.result()])


def _alike(rows: list[Row]) -> list[Row]:
    """An outcome names the reasons for which it discarded cells: 0 for the reasons of others."""
    reasons = {key: 0 for row in rows for key in row if ".discarded_cells." in key}
    return [row | {key: row.get(key, 0) for key in reasons} for row in rows]


def _rows(scenario: Row, task: list[Row], fast: bool) -> list[Row]:
    return [row(scenario, point, fast) for point in task]


def row(scenario: Mapping[str, Any], changes: Mapping[str, Any], fast: bool) -> Row:
    """One run as a row."""
    changed = change(load(scenario), changes)
    try:
        told = outcome(changed, fast)
    except Exception as error:
        error.add_note(f"at {dict(changes)}")
        raise
    for kind in ("hosts", "switches"):
        told[kind] = {entry.pop("name"): entry for entry in told[kind]}
    return dict(changes) | dict(_flat(told))


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    parts: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        yield key, value
        return
    for part, inner in parts:
        yield from _flat(inner, f"{key}.{part}" if key else str(part))
