"""Draws what `python -m benchmarks.turns --json` measured: `python -m benchmarks.plots.turns RUN.json... [--out FILE]`.

Left: what a turn waits for its memory, warm and cold, beside the official SDK called directly in the same run. Right:
warm latency against the number of sessions. Each run is a point or a line of its own; the bars of issue 6 are the
dashed lines. SVG by default; the name's ending decides.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.turns import BARS

OUT = Path(__file__).parents[2] / "docs" / "plots" / "turns.svg"
OURS, THEIRS, BAR = "#2563a8", "#c2571a", "#8a8a8a"
LATENCIES = (
    ("warm, back to back, p50", "warm_p50_us", 1.0),
    ("warm, back to back, p99", "warm_p99_us", 1.0),
    ("warm, one a millisecond, p50", "warm_paced_p50_us", 1.0),
    ("warm, one a millisecond, p99", "warm_paced_p99_us", 1.0),
    ("warm, server hangs, p99", "warm_hung_server_p99_us", 1.0),
    ("warm, busy thread beside it, p99", "warm_hog_p99_us", 1.0),
    ("new session, known person", "new_session_known_person_ms", 1e3),
    ("cold, new person", "cold_new_ms", 1e3),
    ("cold, known session", "cold_known_session_ms", 1e3),
    ("cold, dialectic takes 3 s more", "cold_slow_dialectic_ms", 1e3),
    ("official SDK, session context", "sdk_context_ms", 1e3),
)
"""What the row is called, its figure, and how many microseconds one unit of that is."""


def spoken(microseconds: float) -> str:
    return f"{microseconds / 1e3:.3g} ms" if microseconds >= 1_000 else f"{microseconds:.3g} µs"


def latencies(axes: Axes, runs: list[dict[str, Any]]) -> None:
    """One row for each figure that any run has; the number is the worst run's."""
    rows = [row for row in LATENCIES if any(row[1] in run for run in runs)]
    for place, (_, name, unit) in enumerate(rows):
        found = [run[name] * unit for run in runs if name in run]
        colour = THEIRS if name.startswith("sdk") else OURS
        axes.barh(place, max(found), left=0, height=0.55, color=colour, alpha=0.25)
        axes.plot(found, [place] * len(found), "o", color=colour, markersize=5)
        limit = BARS.get(name, 0.0) * unit
        if limit:
            axes.plot([limit, limit], [place - 0.4, place + 0.4], "--", color=BAR, linewidth=1.2)
        after = (max(limit, *found), place)
        axes.annotate(spoken(max(found)), after, (7, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1.0, 4e6)
    axes.set_xlabel("microseconds (logarithmic); a server that takes 200 ms for everything")
    axes.set_title("A turn's wait for its memory", loc="left")


def by_sessions(axes: Axes, runs: list[dict[str, Any]]) -> None:
    """p50 and p99 of the warm turn, from one session to as many as the run filled."""
    for run in runs:
        rows = sorted((int(sessions), row) for sessions, row in run.get("warm_by_sessions", {}).items())
        sizes = [sessions for sessions, _ in rows]
        for figure, style in (("p99_us", "o-"), ("p50_us", "o:")):
            axes.plot(sizes, [row[figure] for _, row in rows], style, color=OURS, markersize=4)
        if rows and run is runs[0]:
            for figure in ("p99", "p50"):
                axes.annotate(
                    figure, (sizes[-1], rows[-1][1][f"{figure}_us"]), (8, 0), textcoords="offset points", va="center"
                )
    for name, height in (("p99", BARS["warm_p99_us"]), ("p50", BARS["warm_p50_us"])):
        axes.axhline(height, linestyle="--", color=BAR, linewidth=1.2)
        axes.annotate(f"bar of the {name}", (1.0, height), (0, 3), textcoords="offset points", color=BAR)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1.0, 200.0)
    axes.margins(x=0.12)
    axes.set_xlabel("sessions")
    axes.set_ylabel("microseconds of a warm turn")
    axes.set_title("Warm, against the number of sessions", loc="left")


def draw(runs: list[dict[str, Any]], out: Path) -> None:
    mpl.rcParams.update({"svg.hashsalt": "turns", "svg.fonttype": "none", "font.size": 9.0})
    figure = Figure(figsize=(12.0, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    latencies(left, runs)
    by_sessions(right, runs)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, which="major", axis="both", alpha=0.2)
    under = "; ".join(
        f"Python {run['python']}, {run['cores']} cores, load {run['load']}{', quick' if run['quick'] else ''}"
        for run in runs
    )
    figure.supxlabel(f"{len(runs)} run(s): {under}", fontsize=7.5, color="#555555")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="files that `python -m benchmarks.turns --json` wrote")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    draw([json.loads(path.read_text()) for path in given.runs], given.out)
    print(given.out)


if __name__ == "__main__":
    main()
