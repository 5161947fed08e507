"""Rows by predicate and by sample, in every verb that reads data; files that differ."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import run, run_json, write_config

CONFIG = """
name: test
data: {{train: "{data}", eval: "{data}", label: click, batch: 100}}
features:
  - {{id: [user, city], dim: 4}}
  - {{raw: price}}
model: {{dnn: {{hidden: [8]}}}}
train: {{dir: "{run}", epochs: 1, seed: 7, checkpoint: {{every: 0s}}}}
"""
ROWS, DAYS = 1000, 4


def table(day, rows=ROWS):
    return pa.table({
        "user": pa.array(range(day * rows, day * rows + rows), pa.int64()),
        "city": pa.array(["US" if i % 5 == 0 else "DE" for i in range(rows)]),
        "price": pa.array([None if i % 50 == 0 else i / 4 for i in range(rows)], pa.float64()),
        "w": pa.array([float(i % 2) for i in range(rows)], pa.float32()),
        "click": pa.array([int(i % 3 == 0) for i in range(rows)], pa.int32())})


@pytest.fixture(name="days", scope="module")
def days_fixture(tmp_path_factory):
    out = tmp_path_factory.mktemp("where") / "logs"
    for day in range(DAYS):
        path = out / f"ds={20260801 + day}"
        path.mkdir(parents=True)
        pq.write_table(table(day), path / "part-0.parquet", row_group_size=100)
    return out


def job(tmp_path, data, old="batch: 100", new="batch: 100"):
    return write_config(tmp_path / "job.yaml", data, tmp_path / "run", CONFIG, **{old: new})


def matching(days):
    """As pyarrow filters: country and day, and a price that is no null."""
    found = pq.read_table(days, filters=[("city", "=", "US"), ("ds", ">=", 20260803), ("price", "<", 100)])
    return sorted(found.column("user").to_pylist())


WHERE = "city = 'US' and ds >= 20260803 and price < 100"


def test_train_eval_predict_and_inspect_read_the_rows_that_pyarrow_filters(days, tmp_path):
    config = job(tmp_path, days)
    rows = matching(days)
    assert len(rows) == 2 * 72
    result = run_json("train", "--config", config, "--set", f"data.where={WHERE}")
    assert result["samples"] == len(rows)
    # Two days are not opened; six of ten row groups of the others hold greater prices only.
    assert result["data"] == {"files_passed_over": 2, "splits_passed_over": 12, "rows_read": 800,
                              "rows_matched": len(rows), "values_read": 3200, "member_values_read": 0}
    assert run_json("eval", "--config", config, "--set", f"data.where={WHERE}")["samples"] == len(rows)
    run("export", "--config", config, "--out", tmp_path / "bundle")
    run("predict", "--bundle", tmp_path / "bundle", "--data", days, "--where", WHERE, "--keep", "user,city",
        "--out", tmp_path / "s.parquet")
    scores = pq.read_table(tmp_path / "s.parquet")
    assert sorted(scores.column("user").to_pylist()) == rows and set(scores.column("city").to_pylist()) == {"US"}
    stats = run_json("inspect", "data", days, "--where", WHERE)
    assert stats["rows"] == len(rows) and stats["files_passed_over"] == 2
    assert {c["name"]: c for c in stats["columns"]}["user"]["max"] == max(rows)


@pytest.mark.parametrize("where,message", [
    ("city = ", "character 8"), ("city > 3", "column city holds text"), ("town = 'US'", "no column town"),
    ("click = 1 and", "character 14")])
def test_mistakes_in_a_predicate_have_their_line(days, tmp_path, where, message):
    config = job(tmp_path, days, new=f'batch: 100, where: "{where}"')
    error = run("train", "--config", config, code=2).stderr
    assert "job.yaml:3:" in error and message in error


def test_nothing_left_is_an_error(days, tmp_path):
    config = job(tmp_path, days)
    assert "leaves no row" in run("train", "--config", config, "--set", "data.where=ds = 1", code=3).stderr
    assert "was left to train on" in run("train", "--config", config, "--set", "data.where=user = 7 and city = 'US'", code=3).stderr
    assert "leaves no row" in run("inspect", "data", days, "--where", "price > 1e9", code=3).stderr


def test_samples_by_rate_weight_and_with_replacement(days, tmp_path):
    runs = iter(range(10))

    def samples(sample):
        config = job(tmp_path, days, new=f"batch: 100, sample: {sample}")
        return run_json("train", "--config", config, "--set", f"train.dir={tmp_path}/run{next(runs)}")["samples"]
    assert abs(samples("{rate: 0.25}") - 1000) < 150
    assert samples("{weight: w}") == 2000
    assert abs(samples("{weight: w, rate: 1.5, replacement: true}") - 3000) < 300
    assert samples("{rate: 0.25}") == samples("{rate: 0.25}")
    config = job(tmp_path, days, new="batch: 100, sample: {weight: weigth}")
    assert "job.yaml:3:" in run("train", "--config", config, code=2).stderr


def test_files_that_differ_are_told_of_and_a_lacking_column_has_its_line(tmp_path):
    data = tmp_path / "logs"
    data.mkdir()
    pq.write_table(table(0), data / "a.parquet")
    pq.write_table(table(1).drop_columns(["price"]).append_column("extra", pa.array(["x"] * ROWS)), data / "b.parquet")
    config = job(tmp_path, data)
    error = run("train", "--config", config, code=3).stderr
    assert "job.yaml:6:" in error and "missing in" in error and "b.parquet" in error
    config = job(tmp_path, data, "  - {raw: price}\n", "")
    done = run("train", "--config", config, "--json")
    assert json.loads(done.stdout.strip().splitlines()[-1])["samples"] == 2 * ROWS
    assert "note: column extra (string) is in" in done.stderr and "note: column price" in done.stderr


def test_validate_warns_of_poor_mixing(days, tmp_path):
    config = job(tmp_path, days)
    assert run_json("validate", "--config", config)["mixing"]["poor"] is False
    assert "POORLY MIXED" in run("validate", "--config", config, "--set", "data.shuffle=false").stdout
