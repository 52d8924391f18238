#!/usr/bin/env python3
"""SimPy as a peer of `cellgate bench lab`: a slotted ring of one channel, whose stations have
always a cell to send. A station empties its slot when it comes round, and passes it on.

It is not part of the build: SimPy (pip install simpy) need not be there.

    ring_simpy.py ROTATIONS ROTATION_PS FRAMES PLACES PLACE...

A slot that passes a station is an event with a callback. A line on standard input is a round; the
answer on standard output is the nanoseconds of CPU time that it took, and how many cells were sent.
"""

import sys
import time

from simpy import Environment
from simpy.events import Timeout


class Slot:
    """A slot on its way round: times are picoseconds."""

    def __init__(self, ring, number):
        self.ring = ring
        self.number = number
        self.station = 0
        self.owner = None
        self.wait()

    def wait(self):
        """Until it passes the next station."""
        ring = self.ring
        steps = self.number * ring.places + ring.at[self.station] * ring.frames
        due = ring.rotation * steps // (ring.frames * ring.places)
        Timeout(ring.env, due - ring.env.now).callbacks.append(self.passes)

    def passes(self, _):
        if self.owner is None:
            self.owner = self.station
            self.ring.sent += 1
        elif self.owner == self.station:
            self.owner = None
        self.station += 1
        if self.station == len(self.ring.at):
            self.station = 0
            self.number += self.ring.frames
        self.wait()


class Ring:
    def __init__(self, rotation, frames, places, at):
        self.env = Environment()
        self.rotation, self.frames, self.places, self.at = rotation, frames, places, at
        self.sent = 0
        self.slots = [Slot(self, number) for number in range(frames)]


def main():
    try:
        rotations, rotation, frames, places, *at = map(int, sys.argv[1:])
    except ValueError:
        sys.exit("ring_simpy.py ROTATIONS ROTATION_PS FRAMES PLACES PLACE...")
    for _ in sys.stdin:
        start = time.process_time_ns()
        ring = Ring(rotation, frames, places, at)
        ring.env.run(until=rotations * rotation)
        print(time.process_time_ns() - start, ring.sent, flush=True)


main()
