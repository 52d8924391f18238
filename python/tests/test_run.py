"""Single runs: what is changed is changed, what makes no sense is an error."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

import cellgate
from cellgate.lab import load

STAR = Path(__file__).with_name("star.toml")


def test_a_run_is_what_its_scenario_says():
    outcome = cellgate.run(STAR)
    video, hazard = (outcome["connections"][name] for name in ("video", "hazard"))
    assert video["delivered_pdus"] == video["sent_pdus"] > 0
    assert hazard["delivered_pdus"] < hazard["sent_pdus"]
    assert cellgate.run(str(STAR)) == outcome
    assert cellgate.run(load(STAR)) == outcome


def test_the_reference_judges_unless_it_is_to_be_fast():
    judged = cellgate.run(STAR)
    assert judged["judged_cells"] > 0
    assert cellgate.run(STAR, fast=True) == judged | {"judged_cells": 0}
    assert all(cellgate.run(cellgate.scenario_of(seed))["judged_cells"] > 0 for seed in range(4))


def test_changes_go_by_name_index_and_both_separators():
    scenario = load(STAR)
    before = deepcopy(scenario)
    slow = {"connections.hazard.contract": "cbr,aal5:pcr=50000cps,max_sdu=500,cdvt=100us"}
    outcome = cellgate.run(scenario, **slow, sources__1__traffic__paced__cell_s=50_000)
    hazard = outcome["connections"]["hazard"]
    assert hazard["delivered_pdus"] == hazard["sent_pdus"]
    by_name = cellgate.run(scenario, **slow, sources__hazard__traffic__paced__cell_s=50_000)
    assert by_name == outcome
    longer = cellgate.run(scenario, duration_ns=4_000_000)
    assert longer["cells"] > outcome["cells"]
    assert scenario == before, "a scenario is not changed by its runs"


def test_a_file_of_json_is_read_as_such(tmp_path):
    scenario = cellgate.scenario_of(4)
    file = tmp_path / "four.json"
    file.write_text(json.dumps(scenario))
    assert cellgate.run(file) == cellgate.run(str(file)) == cellgate.run(scenario)
    file.write_text("duration_ns = 1")
    with pytest.raises(ValueError):
        cellgate.run(file)


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    assert cellgate.run(STAR, duration_ns=numpy.int64(500_000)) == cellgate.run(
        STAR, duration_ns=500_000
    )
    with pytest.raises(TypeError, match="Path"):
        cellgate.run(STAR, duration_ns=STAR)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hosts.d.budget": 1}, "no 'd'"),
        ({"hosts.7.budget": 1}, "no '7'"),
        ({"hosts.a.bugdet": 1}, "bugdet"),
        ({"duration_ns": -1}, "duration_ns|u64"),
        ({"connections.video.to": "d"}, '"d"'),
        ({"connections.video.contract": "cbr:pcr=fast"}, "video"),
    ],
)
def test_what_makes_no_sense_is_told(changes, told):
    with pytest.raises(ValueError, match=told):
        cellgate.run(STAR, **changes)


def test_seeds_draw_scenarios():
    drawn = [cellgate.scenario_of(seed) for seed in range(4)]
    assert [scenario["seed"] for scenario in drawn] == [0, 1, 2, 3]
    hashes = {cellgate.run(scenario)["trace_hash"] for scenario in drawn}
    assert len(hashes) == 4
    renamed = cellgate.run(drawn[0], seed=7)
    assert renamed == cellgate.run(drawn[0]), "it says nothing to the run"


def test_experiments_run_with_settings():
    assert "l4atm-table-1" in cellgate.experiments()
    outcome = cellgate.experiment("l4atm-table-1", seconds=1)
    assert all(check["pass"] for check in outcome["checks"])
    wrong = cellgate.experiment("l4atm-table-1", seconds=1, driver_us=100)
    assert not all(check["pass"] for check in wrong["checks"])
    with pytest.raises(ValueError, match="no experiment"):
        cellgate.experiment("l4atm-table-9")
    with pytest.raises(ValueError, match="no parameter"):
        cellgate.experiment("l4atm-table-1", minutes=1)
