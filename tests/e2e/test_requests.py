"""Rows that share a user: the flat log, the flat log with a key and the nested log train alike."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import run, run_json

MODEL = """
model: {{deepfm: {{hidden: [32, 16]}}}}
train: {{dir: "{dir}/run", seed: 5, threads: 2, checkpoint: {{every: 0s}}}}
"""
FLAT = """
data: {{train: "{data}/train", eval: "{data}/eval", label: click, event_time: ts, batch: 2000, shuffle: false{more}}}
features:
  - {{id: C1..C26, dim: 4, table: {{name: all}}}}
  - {{raw: I1..I13, norm: log1p}}
""" + MODEL
NESTED = """
data: {{train: "{data}/train_nested", eval: "{data}/eval_nested", label: impressions.click,
       event_time: impressions.ts, batch: 200, shuffle: false}}
features:
  - {{id: user.C1..user.C23, dim: 4, table: {{name: all}}}}
  - {{id: impressions.C24..impressions.C26, dim: 4, table: {{name: all}}}}
  - {{raw: [user.I1..user.I12, impressions.I13], norm: log1p}}
""" + MODEL


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("requests") / "data"
    run("generate", "--out", out, "--rows", 30000, "--eval_rows", 10000, "--days", 2, "--impressions", 10)
    return out


def train(tmp, name, text, **values):
    home = tmp / name
    home.mkdir()
    (home / "job.yaml").write_text(text.format(dir=home, **values))
    metrics = run_json("train", "--config", home / "job.yaml")
    run("export", "--config", home / "job.yaml", "--out", home / "bundle")
    return home, metrics


def scores(home, data, part):
    run("predict", "--bundle", home / "bundle", "--data", data / part, "--out", home / "scores.parquet")
    return pq.read_table(home / "scores.parquet")["probability"].to_numpy()


def test_all_forms_train_and_score_alike(data, tmp_path):
    flat, flat_metrics = train(tmp_path, "flat", FLAT, data=data, more="")
    keyed, keyed_metrics = train(tmp_path, "keyed", FLAT, data=data, more=", request: request, user: C1..C23")
    nested, nested_metrics = train(tmp_path, "nested", NESTED, data=data)
    truth = scores(flat, data, "eval")
    assert len(truth) == 10000
    for metrics, got in ((keyed_metrics, scores(keyed, data, "eval")), (nested_metrics, scores(nested, data, "eval_nested"))):
        assert metrics["samples"] == flat_metrics["samples"] == 30000
        assert metrics["auc"] == pytest.approx(flat_metrics["auc"], abs=1e-5)
        # Gradients of a request's rows are summed in another order: the last bits differ.
        assert abs(got - truth).max() < 1e-4


def distinct(tables, columns):
    """Distinct values of each column, summed over the tables."""
    return sum(len(set(t[c].drop_null().to_pylist())) for t in tables for c in columns)


def test_users_features_are_taken_once_a_request(data, tmp_path):
    """Decoded, hashed, scaled, pulled and pushed: counted, and held against the files."""
    user_ids, item_ids = [f"user.C{i}" for i in range(1, 24)], [f"C{i}" for i in range(24, 27)]
    batches = []  # Of 200 requests, cut inside row groups.
    for path in sorted((data / "train_nested").rglob("*.parquet")):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            batches += [table.slice(at, 200) for at in range(0, len(table), 200)]
    users = [t.select(["user"]).flatten() for t in batches]
    items = [pa.Table.from_struct_array(t["impressions"].combine_chunks().flatten()) for t in batches]
    rows, requests = sum(map(len, items)), sum(map(len, users))
    assert rows == 10 * requests == 30000

    _, nested = train(tmp_path, "nested", NESTED, data=data)
    work, read = nested["work"], nested["data"]
    assert work["requests"] == requests
    assert read["values_read"] == requests * (23 + 12)
    assert read["member_values_read"] == rows * (3 + 1 + 2), "ids, a number, label and time"
    assert work["scaled"] == {"user": 12 * requests, "row": rows}
    assert work["hashed"] == {"user": distinct(users, user_ids), "row": distinct(items, item_ids)}
    assert work["ids_pulled"] == work["ids_pushed"] == sum(work["hashed"].values())

    _, flat = train(tmp_path, "flat", FLAT, data=data, more="")
    assert flat["work"]["requests"] == flat["samples"] == rows
    assert flat["work"]["scaled"] == {"user": 0, "row": 13 * rows}
    assert flat["data"]["values_read"] == rows * (26 + 13 + 2) and flat["data"]["member_values_read"] == 0


def test_column_that_is_not_the_users_is_refused(data, tmp_path):
    (tmp_path / "job.yaml").write_text(
        FLAT.format(data=data, dir=tmp_path, more=", request: request, user: C1..C24"))
    out = run("train", "--config", tmp_path / "job.yaml", code=3)
    assert "column C24, row " in out.stderr and "take it out of data.user" in out.stderr


def test_config_says_what_is_missing(data, tmp_path):
    for more, words in ((", user: C1", "name its column in data.request"),
                        (", request: request", "list the user's columns in data.user"),
                        (", request: request, user: request", 'no feature reads column "request"')):
        (tmp_path / "job.yaml").write_text(FLAT.format(data=data, dir=tmp_path, more=more))
        out = run("validate", "--config", tmp_path / "job.yaml", code=2)
        assert words in out.stderr, out.stderr


def test_members_of_two_lists_are_refused(tmp_path):
    row = pa.struct([("x", pa.int64()), ("click", pa.int64())])
    other = pa.struct([("y", pa.int64())])
    table = pa.table({"a": pa.array([[{"x": 1, "click": 1}]], pa.list_(row)),
                      "b": pa.array([[{"y": 1}, {"y": 2}]], pa.list_(other))})
    pq.write_table(table, tmp_path / "d.parquet")
    (tmp_path / "job.yaml").write_text(
        f'data: {{train: "{tmp_path}/d.parquet", label: a.click}}\n'
        f'features: [{{id: [a.x, b.y], dim: 4}}]\nmodel: {{fm: {{}}}}\ntrain: {{dir: "{tmp_path}/run"}}\n')
    out = run("train", "--config", tmp_path / "job.yaml", code=3)
    assert "members of different lists" in out.stderr, out.stderr

