"""Sweeps: the same rows from every executor."""

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import cellgate
from cellgate.lab import load

STAR = Path(__file__).with_name("star.toml")
DUPLEX = Path(__file__).parents[2] / "examples" / "ring-duplex.toml"
VIDEO = DUPLEX.with_name("video.toml")
GRID = {
    "duration_ns": [500_000, 600_000],
    "switches__s__queue_cells": [16, 64],
    "sources__hazard__traffic__paced__cell_s": range(10_000, 260_000, 1_000),
}


class Serial(Executor):
    """Runs what is submitted at once, in the caller's own thread."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture(scope="module")
def serial():
    return cellgate.sweep(STAR, GRID, Serial())


def test_a_grid_has_all_combinations_in_order():
    points = cellgate.points({"a": [1, 2], "b": "xy"})
    assert points == [{"a": a, "b": b} for a in (1, 2) for b in "xy"]
    assert cellgate.points(iter(points)) == points


def test_a_row_has_its_changes_and_its_outcome(serial):
    assert len(serial) == 1_000
    first = serial[0]
    assert first["switches__s__queue_cells"] == 16
    outcome = cellgate.run(STAR, **{key: first[key] for key in GRID})
    video = outcome["connections"]["video"]
    assert first["connections.video.sdu_bit_s"] == video["sdu_bit_s"]
    assert first["hosts.c.received_cells"] == outcome["hosts"][2]["received_cells"]
    assert len({row["trace_hash"] for row in serial}) > 400, "points differ"


def test_a_sweep_is_judged_unless_it_is_to_be_fast(serial):
    assert all(row["judged_cells"] > 0 for row in serial)
    fast = cellgate.sweep(STAR, GRID, Serial(), fast=True)
    assert fast == [row | {"judged_cells": 0} for row in serial]


def test_a_row_goes_by_the_names_that_its_point_has():
    points = [
        {"hosts": [{"name": n} for n in names], "links": [{"ends": [n, "s"]} for n in names]}
        for names in ("abc", "cab", "abcd")
    ]
    rows = cellgate.sweep(STAR, points, Serial())
    received = [[row[f"hosts.{name}.received_cells"] for name in "abc"] for row in rows]
    assert received == [received[0]] * 3 and received[0][2] > 0
    assert rows[2]["hosts.d.received_cells"] == 0


def test_files_are_swept_by_the_length_of_their_pdus():
    plan = {
        "duration_ns": 1_000_000_000,
        "hosts": [{"name": "a"}, {"name": "b"}],
        "links": [{"ends": ["a", "b"], "line": "ber 1e-5 seed 7"}],
        "transfers": [{"from": "a", "to": "b", "files": [{"path": "f", "octets": 300_000}]}],
    }
    rows = cellgate.sweep(plan, {"transfers__0__pdu_octets": [640, 4_000]}, Serial())
    assert [row["transfers.0.there"] for row in rows] == [1, 1]
    short, long = (row["transfers.0.sent_again_octets"] for row in rows)
    assert 0 < short < long, "bit errors lose long PDUs more often"


def test_a_ring_is_swept_by_the_order_of_its_stations():
    points = [
        {f"stations__{name}__order": order for name in ("west", "east")}
        | {"duration_ns": 20_000_000, "traffic__westward__octets": [8_160]}
        for order in ("in_turn", "interrupt_first")
    ]
    rows = cellgate.sweep(DUPLEX, points, Serial())
    ways = [[row[f"associations.{way}ward.data_bit_s"] for way in ("east", "west")] for row in rows]
    (east, west), (first, late) = ways
    assert 0.5 < west / east < 2.0, "in turn neither way starves; one begins later"
    assert late < first / 5, "whoever begins later hardly sends"
    assert rows[0]["rings.cbn.channels_use_ppm.1"] > 0
    assert all(row["judged_cells"] > 0 for row in rows)


def test_video_goes_by_its_connection_and_marks_by_their_switch():
    points = [
        {"streams__video__latency_ns": latency_ns, "switches__switch__mark": mark}
        for latency_ns in (20_000_000, 200_000_000)
        for mark in ({"efci": 20}, {"er": {"target_percent": 95}})
    ]
    rows = cellgate.sweep(VIDEO, points, Serial())
    late = [row["streams.video.late"] for row in rows]
    assert late[0] == late[1] > 0 == late[2] == late[3], "no mark touches what is not ABR"
    assert {row["streams.video.frames_missing"] for row in rows} == {0}


def test_a_data_frame_takes_rows_as_they_are(serial):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(serial)
    assert frame.shape == (1_000, len(serial[0]))
    discarded = frame["hosts.c.discarded_cells.non_conforming"]
    assert (discarded == 0).any() and (discarded > 0).any()
    assert not frame.isna().any().any()


def test_processes_and_threads_give_the_serial_rows(serial):
    assert cellgate.sweep(STAR, GRID) == serial
    with ThreadPoolExecutor(2) as threads:
        assert cellgate.sweep(STAR, GRID, threads) == serial


def test_a_dask_cluster_gives_the_serial_rows(serial):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        assert cellgate.sweep(STAR, GRID, client.get_executor()) == serial


def test_an_error_of_a_run_is_raised():
    with pytest.raises(ValueError, match="nowhere"):
        cellgate.sweep(STAR, {"connections__video__to": ["c", "nowhere"]}, Serial())


def test_a_violation_comes_back_from_a_process():
    # Beside bursts of as much as a line carries, cells wait for longer than a tolerance of nothing.
    bursts = {"on_off": {"cell_s": 353_000, "on_ns": 200_000, "off_ns": 1_000_000}}
    scenario = load(STAR)
    video, hazard = scenario["sources"]
    video.update(traffic={"paced": {"cell_s": 200_000}}, sdus=[40])
    hazard["traffic"] = bursts
    contract = "cbr,aal5:pcr=200000cps,max_sdu=40,cdvt="
    tight = {"connections__video__contract": [contract + "1ms", contract + "0us"]}
    with pytest.raises(cellgate.Violation, match="^I6 at [0-9]+ ns: .*video") as told:
        cellgate.sweep(scenario, tight)
    assert told.value.__notes__ == [f"at {{'connections__video__contract': '{contract}0us'}}"]


def test_a_source_that_only_says_that_it_conforms_is_an_error():
    with pytest.raises(ValueError, match="50000 cells/s its contract lets pass 10000"):
        cellgate.run(STAR, sources__hazard__hazard=False)
