"""Examples run, and print what their figures show."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_only_a_switch_that_loses_single_cells_of_the_hazard_lets_the_load_fall(tmp_path):
    pytest.importorskip("matplotlib")
    drawing = tmp_path / "figure_9.svg"
    command = [sys.executable, EXAMPLES / "figure_9.py", drawing, "20"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^(\S+): (\S+) at most, (\S+) at 130", printed, re.MULTILINE)
    falls = {policy: float(end) / float(top) for policy, top, end in lines}
    assert falls["per-vc"] < 0.55 < 0.6 < falls["ppd"] < falls["epd"]
    assert "<svg" in drawing.read_text()


def test_two_ends_of_a_connection_print_what_the_example_says(server):
    example = EXAMPLES / "connection.py"
    told = ast.get_docstring(ast.parse(example.read_text()))
    wanted = [line.strip() for line in told.rpartition("::")[2].strip().splitlines()]
    environment = os.environ | {"CELLGATE_SOCKET": str(server.socket)}
    command = [sys.executable, example]
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, timeout=60
    )
    assert printed.stdout.splitlines() == wanted
