"""A row group too large for data.read_memory trains as the same rows in small row groups do."""

import pyarrow as pa
import pyarrow.parquet as pq

from harness import run, run_json

JOB = """
data: {{train: "{data}", label: click, event_time: ts, batch: 1000, read_memory: {memory}}}
features:
  - {{id: C1..C26, dim: 4, table: {{name: all}}}}
  - {{raw: I1..I13, norm: log1p}}
model: {{deepfm: {{hidden: [16]}}}}
train: {{dir: "{dir}/run", seed: 5, threads: 2, checkpoint: {{every: 0s}}}}
"""


def job(tmp, name, data, memory):
    home = tmp / name
    home.mkdir(exist_ok=True)
    (home / "job.yaml").write_text(JOB.format(dir=home, data=data, memory=memory))
    return home / "job.yaml"


def test_large_row_group_trains_as_small_ones(tmp_path):
    run("generate", "--out", tmp_path / "data", "--rows", 60000, "--eval_rows", 1000, "--days", 1)
    table = pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / "data/train").rglob("*.parquet")))
    for name in ("large", "small"):
        (tmp_path / name).mkdir()
    pq.write_table(table, tmp_path / "large/a.parquet", row_group_size=len(table))
    large = job(tmp_path, "run_large", tmp_path / "large", "16MiB")
    report = run_json("validate", "--config", large)["train"]
    assert report["splits"] > 5 and report["parts_cut"] == 1 and report["split_bytes_max"] <= 2 << 20
    assert "1 row groups are read in pieces" in run("validate", "--config", large).stdout

    # Pieces are whole numbers of 4096 rows; groups of as many are the same splits.
    piece = max(rows for rows in range(4096, len(table), 4096) if -(-len(table) // rows) == report["splits"])
    pq.write_table(table, tmp_path / "small/a.parquet", row_group_size=piece)
    small = job(tmp_path, "run_small", tmp_path / "small", "1GiB")
    assert run_json("validate", "--config", small)["train"]["parts_cut"] == 0
    a, b = (run_json("train", "--config", path) for path in (large, small))
    assert a["samples"] == b["samples"] == len(table)
    assert (a["logloss"], a["auc"], a["steps"]) == (b["logloss"], b["auc"], b["steps"])

    # Positions of other pieces are not these.
    out = run("train", "--config", job(tmp_path, "run_large", tmp_path / "large", "1GiB"), "--resume", code=3)
    assert "data" in out.stderr
    out = run("validate", "--config", job(tmp_path, "tiny", tmp_path / "large", "1MiB"), code=2)
    assert "read_memory" in out.stderr
