#!/usr/bin/env python3
"""SimPy as a peer of `cellgate bench lab`: cells of 53 octets from a source over a link to a
switch, and over a link to a sink, both links saturated.

It is not part of the build: SimPy (pip install simpy) need not be there.

    lab_simpy.py CELLS BIT_S DELAY_PS QUEUE_CELLS

Events have callbacks and no processes, which cost SimPy more. A line on standard input is a round
of CELLS; the answer on standard output is the nanoseconds of CPU time that it took, and how many
cells the sink got.
"""

import sys
import time
from collections import deque

from simpy import Environment
from simpy.events import Timeout

CELL_OCTETS = 53
PS_PER_S = 1_000_000_000_000


class Network:
    """Times are picoseconds."""

    def __init__(self, cells, bit_s, delay, queue_cells):
        self.env = Environment()
        self.cells = cells
        self.bit_s = bit_s
        self.cell = CELL_OCTETS * 8 * PS_PER_S // bit_s
        self.delay = delay
        self.room = queue_cells
        self.waiting = deque()
        self.busy = False
        self.sent = 0
        self.received = 0
        self.payload = bytes(CELL_OCTETS)
        self.after(0, self.emit)

    def after(self, delay, callback, value=None):
        Timeout(self.env, delay, value).callbacks.append(callback)

    def emit(self, _):
        self.after(self.cell + self.delay, self.arrive, self.payload)
        self.sent += 1
        if self.sent < self.cells:
            due = self.sent * CELL_OCTETS * 8 * PS_PER_S // self.bit_s
            self.after(due - self.env.now, self.emit)

    def arrive(self, event):
        if len(self.waiting) >= self.room:
            return
        self.waiting.append(event.value)
        if not self.busy:
            self.busy = True
            self.after(self.cell, self.leave)

    def leave(self, _):
        self.after(self.delay, self.take, self.waiting.popleft())
        self.busy = bool(self.waiting)
        if self.busy:
            self.after(self.cell, self.leave)

    def take(self, event):
        self.received += len(event.value) == CELL_OCTETS


def main():
    try:
        cells, bit_s, delay, queue_cells = map(int, sys.argv[1:])
    except ValueError:
        sys.exit("lab_simpy.py CELLS BIT_S DELAY_PS QUEUE_CELLS")
    for _ in sys.stdin:
        start = time.process_time_ns()
        network = Network(cells, bit_s, delay, queue_cells)
        network.env.run()
        print(time.process_time_ns() - start, network.received, flush=True)


main()
