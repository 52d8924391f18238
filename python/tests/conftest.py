"""A server of its own for the tests of live connections."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import cellgate

# What one sends, the other receives.
CONFIG = """
[server]
state_dir = "{directory}"
[adapter]
pin = false
nice = 0
lock_memory = false
idle = "sleep"
vcs = 64
ports = 4
[[interface]]
name = "a"
link.memory.peer = "b"
line_rate.cell_s = 40000
[[interface]]
name = "b"
link.memory.peer = "a"
line_rate.cell_s = 40000
"""

PATIENCE_S = 60
"""Long enough for anything on a busy machine; reached only by a failing test."""


class Server:
    def __init__(self, command, directory):
        self.socket = directory / "control.sock"
        self.config = directory / "cellgate.toml"
        self.config.write_text(CONFIG.format(directory=directory))
        self.command = [command, "serve", "-c", self.config]
        self.log = open(directory / "log", "a+b")
        self.killed_adapter = None
        self.start()

    def start(self):
        """Starts a server: it answers."""
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.connect("a.0.999", "ubr,aal5").close(linger=0)
            except cellgate.NoServer:
                assert self.process.poll() is None, "the server has ended: see its log"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def kill_adapter(self):
        """Kills the adapter's process: the one that the server has told of last."""
        deadline = time.monotonic() + PATIENCE_S
        while (adapter := self.adapter()) == self.killed_adapter:
            assert time.monotonic() < deadline, "the server tells of no other adapter"
            time.sleep(0.02)
        os.kill(adapter, signal.SIGKILL)
        self.killed_adapter = adapter

    def adapter(self):
        self.log.seek(0)
        return int(re.findall(rb"adapter (\d+):", self.log.read())[-1])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)

    def connect(self, address, contract, **more):
        return cellgate.connect(address, contract, socket=self.socket, **more)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    command = os.environ.get("CELLGATE") or shutil.which("cellgate")
    if not command:
        pytest.skip("no cellgate: name the command in CELLGATE")
    # Below 100 octets, which the address of a socket has.
    server = Server(command, tmp_path_factory.mktemp("cellgate"))
    yield server
    server.end()


@pytest.fixture
def pair(server):
    """The two ends of a way there and back."""
    contract = "cbr,aal5:pcr=4000,max_sdu=1000"
    with server.connect("a.0.100", contract) as a, server.connect("b.0.100", contract) as b:
        yield a, b
