"""A real data set, where it is at hand: FM by the published settings, one seed."""

import subprocess
import sys

import pytest

import harness


def test_fm_reaches_its_published_auc_on_frappe():
    data = harness.SHARED_DATA / "frappe_x1"
    if not data.exists():
        pytest.skip(f"NOT RUN: {data} is not there")
    script = harness.ROOT / "tests" / "results" / "frappe.py"
    done = subprocess.run([sys.executable, script, "--starling", harness.BINARY, "--data", data, "--models", "fm",
                           "--seeds", "1"], capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
