"""Features of many kinds, trained, exported, predicted and served: one score everywhere."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness import run, run_json

CONFIG = """
name: test
data: {{train: "{data}/train.parquet", eval: "{data}/eval.parquet", label: click, event_time: ts, batch: 256}}
features:
  - {{id: [user, item], dim: 4}}
  - {{id: tags, dim: 4, separator: "|", weighted: true, pooling: mean, default: none}}
  - {{bucketize: price, boundaries: [1, 3, 9], name: price_bucket, dim: 4}}
  - {{combo: [user, item], dim: 4, salt: v1}}
  - {{lookup: {{map: counts, key: item}}, name: seen, norm: log1p}}
  - {{match: {{nested_map: nested, pkey: user, skey: item}}, name: both, as: id, dim: 4}}
  - {{expr: "if(price > 2, log1p(price), -price)", name: bent, missing: 0.5}}
  - {{raw: price, clip: {{min: 0, max: 8}}, zscore: {{mean: 3, stddev: 2}}}}
  - {{raw: vector, width: 3}}
  - sequence: {{ids: [past_item], vocabularies: [item], raws: [past_price], time: past_time, within: 60s}}
    max_length: 3
    pooling: mean
    dim: 4
model: {{deepfm: {{hidden: [16]}}}}
train: {{dir: "{data}/run", seed: 7, checkpoint: {{every: 0s}}}}
"""
INPUTS = ["user", "item", "tags", "price", "counts", "nested", "vector", "past_item", "past_price", "past_time", "ts"]


def make(rows, seed):
    rng = np.random.default_rng(seed)
    pick = lambda n: int(rng.integers(n))
    some = lambda value: None if rng.random() < 0.1 else value
    out = {name: [] for name in INPUTS + ["click"]}
    for _ in range(rows):
        user, item, price, past = pick(30), pick(20), float(np.float32(rng.exponential(3))), pick(6)
        out["user"].append(some(f"u{user}"))
        out["item"].append(some(item))
        out["tags"].append(some("|".join(f"t{pick(8)}:{pick(9) / 4}" for _ in range(pick(4)))))
        out["price"].append(some(price))
        out["counts"].append(some(",".join(f"{i}:{pick(50)}" for i in range(0, 20, 2))))
        out["nested"].append(some("|".join(f"u{u}^" + ",".join(f"{i}:v{pick(3)}" for i in range(20)) for u in (user, pick(30)))))
        out["vector"].append(some([float(np.float32(x)) for x in rng.normal(size=3)]))
        out["past_item"].append([pick(20) for _ in range(past)])
        out["past_price"].append([float(pick(100)) / 8 for _ in range(past)])
        out["past_time"].append([1000 + pick(100) for _ in range(past)])
        out["ts"].append(1100)
        out["click"].append(int(rng.random() < 0.2 + 0.5 * (item % 3 == user % 3)))
    return pa.table({
        "user": pa.array(out["user"], pa.string()), "item": pa.array(out["item"], pa.int64()),
        "tags": pa.array(out["tags"], pa.string()), "price": pa.array(out["price"], pa.float64()),
        "counts": pa.array(out["counts"], pa.string()), "nested": pa.array(out["nested"], pa.string()),
        "vector": pa.array(out["vector"], pa.list_(pa.float64())),
        "past_item": pa.array(out["past_item"], pa.list_(pa.int64())),
        "past_price": pa.array(out["past_price"], pa.list_(pa.float64())),
        "past_time": pa.array(out["past_time"], pa.list_(pa.int64())),
        "ts": pa.array(out["ts"], pa.int64()), "click": pa.array(out["click"], pa.int64())})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("features")
    pq.write_table(make(6000, 1), tmp / "train.parquet")
    pq.write_table(make(1500, 2), tmp / "eval.parquet")
    config = tmp / "job.yaml"
    config.write_text(CONFIG.format(data=tmp))
    result = run_json("train", "--config", config)
    run("export", "--config", config, "--out", tmp / "bundle")
    return tmp, result


def tensor(table, name):
    column = table.column(name)
    kind = column.type.value_type if pa.types.is_list(column.type) else column.type
    datatype = {"int64": "INT64", "double": "FP64", "string": "BYTES"}[str(kind)]
    shape = [len(column), -1] if pa.types.is_list(column.type) else [len(column)]
    return {"name": name, "shape": shape, "datatype": datatype, "data": column.to_pylist()}


def test_served_scores_equal_predicted_scores_bit_for_bit(trained):
    tmp, result = trained
    assert result["samples"] == 6000
    table = make(400, 3).select(INPUTS)
    pq.write_table(table, tmp / "probe.parquet")
    run("predict", "--bundle", tmp / "bundle", "--data", tmp / "probe.parquet", "--out", tmp / "scores.parquet")
    predicted = pq.read_table(tmp / "scores.parquet").column("probability").to_numpy()
    assert len(predicted) == 400 and len(np.unique(predicted)) > 300
    served = []
    with harness.Server(tmp / "bundle", tmp) as server:
        status, text = server.get("/v2/models/test")
        listed = {t["name"]: t["datatype"] for t in json.loads(text)["inputs"]}
        assert status == 200 and set(listed) == set(INPUTS)
        assert {listed[name] for name in ("price", "vector", "past_price")} == {"FP64"}
        assert {listed[name] for name in ("tags", "counts", "nested")} == {"BYTES"}
        for begin in range(0, 400, 100):
            part = table.slice(begin, 100)
            status, reply = server.infer([tensor(part, name) for name in INPUTS])
            assert status == 200, reply
            served += reply["outputs"][0]["data"]
        # An input that is left out is missing, whatever type training saw.
        status, reply = server.infer([tensor(table.slice(0, 2), "item")])
        assert status == 200 and len(reply["outputs"][0]["data"]) == 2
        assert server.stop() == 0
    assert np.array_equal(np.array(served, np.float32).view(np.uint32), predicted.view(np.uint32))


def test_arrow_maps_score_as_their_text_does(trained):
    """A log may hold maps where a request sends text."""
    tmp, _ = trained
    table = make(200, 4).select(INPUTS)
    pairs = lambda text: None if text is None else [(int(k), float(v)) for k, v in (p.split(":") for p in text.split(",") if p)]
    def nest(text):
        if text is None:
            return None
        groups = [group.split("^") for group in text.split("|")]
        return [(key, [(int(s), v) for s, v in (p.split(":") for p in inner.split(","))]) for key, inner in groups]
    maps = table.set_column(
        table.schema.get_field_index("counts"), "counts",
        pa.array([pairs(t) for t in table.column("counts").to_pylist()], pa.map_(pa.int64(), pa.float64())))
    maps = maps.set_column(
        maps.schema.get_field_index("nested"), "nested",
        pa.array([nest(t) for t in table.column("nested").to_pylist()], pa.map_(pa.string(), pa.map_(pa.int64(), pa.string()))))
    scores = []
    for name, data in (("text", table), ("maps", maps)):
        pq.write_table(data, tmp / f"{name}.parquet")
        run("predict", "--bundle", tmp / "bundle", "--data", tmp / f"{name}.parquet", "--out", tmp / f"{name}.scores.parquet")
        scores.append(pq.read_table(tmp / f"{name}.scores.parquet").column("probability").to_numpy())
    assert np.array_equal(scores[0].view(np.uint32), scores[1].view(np.uint32))


def test_bad_values_go_to_quarantine_with_their_column(trained, tmp_path):
    tmp, _ = trained
    table = make(2000, 5)
    tags = table.column("tags").to_pylist()
    tags[7] = "no weight"
    table = table.set_column(table.schema.get_field_index("tags"), "tags", pa.array(tags, pa.string()))
    pq.write_table(table, tmp_path / "train.parquet")
    pq.write_table(make(100, 6), tmp_path / "eval.parquet")
    config = tmp_path / "job.yaml"
    config.write_text(CONFIG.format(data=tmp_path))
    assert run_json("train", "--config", config)["samples"] == 1999
    bad = pa.concat_tables([pq.read_table(p) for p in sorted((tmp_path / "run" / "quarantine").rglob("*.parquet"))])
    assert bad.column("_column").to_pylist() == ["tags"]
    assert bad.column("_reason").to_pylist() == ['"no weight" is not id:weight']
