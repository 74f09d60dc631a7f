"""How long the page takes to be seen, in headless Chromium over loopback.

python -m benchmarks.first_paint [--checkpoints FOLDER] [--times 10] [--results FILE] [--json]

Each load is a cold one: a browser context of its own, with an empty cache and no connection. The times are the
browser's own, in milliseconds since the navigation began: PerformancePaintTiming's first-paint and
first-contentful-paint, which is the bar with the name alone; largest-contentful-paint, which is the room; and the end
of the load event. Bytes are those of all that a load fetches, and of the page's files as they lie in app/web. The
server is the one that `make serve` starts, beside the browser on the same cores. One load that does not count comes
first. Without --checkpoints the server has a small translator with random weights.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from app.api.operations.web_pages import assets
from benchmarks.report import finish, goal
from benchmarks.servers import ours
from benchmarks.shapes import SHAPES, write_checkpoint
from tests.browser.chromium import Watched, browser

MOST_MS = 1000
WARM_UPS = 1
MEASURED = """async () => {
  const [page] = performance.getEntriesByType("navigation");
  const fetched = [page, ...performance.getEntriesByType("resource")];
  const sum = (key) => fetched.reduce((total, each) => total + each[key], 0);
  const paints = performance.getEntriesByType("paint").map((each) => [each.name, each.startTime]);
  const bytes = { wire: sum("transferSize"), unpacked: sum("decodedBodySize") };
  const type = "largest-contentful-paint";
  const largest = await new Promise((done) => {
    new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime)).observe({ type, buffered: true });
  });
  const times = { ...Object.fromEntries(paints), [type]: largest, loaded: page.loadEventEnd };
  return { ...times, ...bytes, requests: fetched.length };
}"""
READY = "document.querySelector('#rooms a') !== null && performance.getEntriesByType('paint').length === 2"
TIMES = {
    "first_paint_ms": "first-paint",
    "first_contentful_paint_ms": "first-contentful-paint",
    "largest_contentful_paint_ms": "largest-contentful-paint",
    "loaded_ms": "loaded",
}


def load(launched: Any, base: str) -> dict[str, Any]:
    """One cold load."""
    with Watched.opened(launched, base, kept={}, viewport={"width": 1120, "height": 900}) as watched:
        page = watched.goto()
        page.wait_for_load_state("networkidle")
        watched.until(READY)
        result = page.evaluate(MEASURED)
        watched.clean()
    times = {name: round(result[key], 1) for name, key in TIMES.items()}
    return {**times, "requests": result["requests"], "wire_bytes": result["wire"], "unpacked_bytes": result["unpacked"]}


def summary(loads: list[dict[str, Any]]) -> dict[str, Any]:
    """The median and the worst of each time; sizes as they were at the last load."""
    row: dict[str, Any] = {"cold_loads": len(loads)}
    for name in TIMES:
        values = [each[name] for each in loads]
        row |= {f"{name}_median": round(statistics.median(values), 1), f"{name}_worst": max(values)}
    row |= {name: loads[-1][name] for name in ("requests", "wire_bytes", "unpacked_bytes")}
    files = assets().values()
    return row | {"page_files": len(files), "page_bytes": sum(len(file.body) for file in files)}


def goals(row: dict[str, Any]) -> list[dict[str, Any]]:
    name = "first_contentful_paint_ms"
    return [
        goal("first contentful paint, cold, median", row[f"{name}_median"], MOST_MS, "ms", "lower"),
        goal("the same, the worst", row[f"{name}_worst"], MOST_MS, "ms", "lower"),
    ]


def measure(checkpoints: Path, times: int) -> list[dict[str, Any]]:
    with ours(checkpoints, log_level="warning") as server, browser() as launched:
        base = f"http://127.0.0.1:{server.port}"
        loads = [load(launched, base) for _ in range(WARM_UPS + times)][WARM_UPS:]
        version = launched.version
    return [{"browser": f"Chromium {version}", **summary(loads)}, *loads]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.checkpoints is None:
            write_checkpoint(Path(folder) / "random-smoke", SHAPES["smoke"])
        rows = measure(given.checkpoints or Path(folder), given.times)
    finish("first_paint", rows, goals(rows[0]), as_json=given.json, out=given.results)


if __name__ == "__main__":
    main()
