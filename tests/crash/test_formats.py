"""A checkpoint of every format that was ever written must load: tests/formats/ keeps one of each.

  python tests/crash/test_formats.py VERSION    makes the one of the binary in $STARLING
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from row_file import read_rows

BINARY = os.environ["STARLING"]
KEPT = pathlib.Path(__file__).resolve().parents[1] / "formats"
WIDTHS = {"user": 5, "item": 5}

CONFIG = """
name: kept
data: {{train: "{data}", label: click, event_time: ts, batch: 8, shuffle: false}}
features:
  - {{id: user, dim: 4, table: {{name: user, admit: {{exact_count: 2}}, evict: {{ttl: 1h}}}}}}
  - {{id: item, dim: 4, table: {{name: item, admit: {{count: 1}}}}}}
model: {{deepfm: {{hidden: [3]}}}}
optimizer: {{sparse: {{adagrad: {{lr: 0.1}}}}, linear: {{ftrl: {{}}}}, dense: {{adam: {{lr: 0.01}}}}}}
train: {{dir: "{run}", seed: 3, threads: 1, checkpoint: {{every: 0s, every_steps: 3, full_every: 2, keep: 9}}}}
"""


def rows_of(checkpoint):
    """What a binary reads from it: {table: [[id, time, frequency, weights…]…]}."""
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "bundle"
        done = subprocess.run([BINARY, "export", "--checkpoint", str(checkpoint), "--out", str(out)], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
        return {name: [[int(r["id"]), int(r["time"]), int(r["frequency"]), *map(float, r["weights"])] for r in read_rows(out / f"table-{name}.rows", width)]
                for name, width in WIDTHS.items()}


def make(version):
    import pyarrow as pa
    import pyarrow.parquet as pq
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        (tmp / "data").mkdir()
        n = range(48)
        pq.write_table(pa.table({"user": [i * i % 11 for i in n], "item": [i * 7 % 13 for i in n], "ts": [1_700_000_000 + 60 * i for i in n],
                                 "click": [i % 3 == 0 for i in n]}), tmp / "data" / "a.parquet")
        (tmp / "job.yaml").write_text(CONFIG.format(data=tmp / "data", run=tmp / "run"))
        subprocess.run([BINARY, "train", "--config", str(tmp / "job.yaml")], check=True)
        out = KEPT / f"checkpoint-v{version}"
        shutil.copytree(tmp / "run" / "ckpt", out)
        (out / "expected.json").write_text(json.dumps({s.name: rows_of(s) for s in sorted(out.glob("step-*"))}, indent=0))


@pytest.mark.parametrize("kept", sorted(p.name for p in KEPT.iterdir()) if KEPT.exists() else [])
def test_a_kept_checkpoint_loads(kept):
    expected = json.loads((KEPT / kept / "expected.json").read_text())
    manifests = [(KEPT / kept / name / "MANIFEST").read_text() for name in expected]
    assert any('"base"' in m for m in manifests) and not all('"base"' in m for m in manifests), "a full one and an increment"
    for name, rows in expected.items():
        assert rows_of(KEPT / kept / name) == rows and len(rows["item"]) > 5
    verified = subprocess.run([BINARY, "inspect", "--verify", str(KEPT / kept)], capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stderr


if __name__ == "__main__":
    make(sys.argv[1])
