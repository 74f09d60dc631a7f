"""The systemd unit of docs/operate.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.server import FLUSH_S
from app.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/systemd/parlance.service"


def test_unit_sets_settings_that_there_are() -> None:
    names = re.findall(rf"{PREFIX}([A-Z_]+)=", UNIT.read_text() + (ROOT / "docs/operate.md").read_text())
    assert {name.lower() for name in names} <= {*Settings.model_fields}
    assert "CHECKPOINTS" in names


def test_unit_waits_longer_than_a_drain_takes() -> None:
    waits = int(re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)[0])
    defaults = Settings.model_fields
    assert waits > defaults["shutdown_delay_s"].default + defaults["drain_timeout_s"].default + FLUSH_S


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    unit = tmp_path / "parlance.service"
    unit.write_text(UNIT.read_text().replace("/opt/parlance/.venv/bin/python", "/bin/true"))
    result = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in result.stderr.splitlines() if unit.name in line] == []
