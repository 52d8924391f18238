"""Draws Figure 9 of Policing Offloaded for three discard policies of the switch.

    python examples/figure_9.py [figure_9.svg [PDUs per point]]

Needs matplotlib.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

import cellgate  # noqa: E402

POLICIES = {"per-vc": "per VC, as the paper's", "ppd": "partial packets", "epd": "early packets"}


def curve(policy: str, pdus: str) -> list[tuple[float, float]]:
    """Host CPU load over the hazard's rate."""
    outcome = cellgate.experiment("policing-figure-9", discard=policy, pdus=pdus)
    panel = outcome["figures"][0]["panels"][0]
    ours = [series for series in panel["series"] if series["look"] not in ("expected", "printed")]
    return [tuple(point) for point in ours[0]["points"]]


def main(path: str = "figure_9.svg", pdus: str = "60") -> None:
    with ProcessPoolExecutor() as pool:
        curves = dict(zip(POLICIES, pool.map(curve, POLICIES, repeat(pdus))))
    figure, axes = pyplot.subplots()
    for policy, points in curves.items():
        axes.plot(*zip(*points), marker=".", label=POLICIES[policy])
        top = max(load for _, load in points)
        print(f"{policy}: {top:.1f} at most, {points[-1][1]:.1f} at {points[-1][0]:.0f} Mbit/s")
    axes.set(xlabel="hazard, Mbit/s of SDU", ylabel="host CPU, %", ylim=(0, None))
    axes.legend(title="discard")
    figure.savefig(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
