"""What type checkers are told is so."""

import subprocess
import sys
from pathlib import Path

import pytest

import cellgate

PYTHON = Path(__file__).parent.parent


def check(*arguments):
    command = [sys.executable, "-m", *arguments]
    checked = subprocess.run(command, cwd=PYTHON, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_stub_has_what_the_extension_has():
    pytest.importorskip("mypy")
    check("mypy.stubtest", "cellgate._native")


def test_the_package_and_the_example_of_a_connection_are_of_their_types():
    pytest.importorskip("mypy")
    check("mypy", "-p", "cellgate")
    check("mypy", "examples/connection.py")


def test_the_package_says_that_it_has_types():
    assert Path(cellgate.__file__).with_name("py.typed").exists()
