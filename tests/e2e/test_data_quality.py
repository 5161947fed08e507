"""`starling inspect data` against what pyarrow and plain Python compute from the same files."""

import collections
import math
import random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness import run, run_json

ROWS = 30000


def make(seed, shift=0.0, new_city=0, null_every=10):
    """A table of every kind of column, as plain Python made it."""
    draw = random.Random(seed)
    cities = [f"city {min(int(draw.expovariate(0.3)), 30)}" for _ in range(ROWS)]
    for row in range(new_city):
        cities[row * 3] = "atlantis"
    price = [draw.gauss(10 + shift, 2) for _ in range(ROWS)]
    price[5], price[6], price[7] = math.nan, math.inf, -math.inf
    return pa.table({
        "user": pa.array([draw.randrange(10**12) if row % 3 else 42 for row in range(ROWS)], pa.int64()),
        "age": pa.array([None if row % null_every == 0 else draw.randrange(18, 90) for row in range(ROWS)], pa.int32()),
        "price": pa.array(price, pa.float64()),
        "city": pa.array(cities).dictionary_encode(),
        "tags": pa.array([None if row % 7 == 0 else [draw.randrange(5) for _ in range(row % 4)] for row in range(ROWS)],
                         pa.list_(pa.int64())),
        "big": pa.array([2**64 - 1 - row % 3 for row in range(ROWS)], pa.uint64()),
        "nothing": pa.nulls(ROWS, pa.string()),
    })


def write(path, table, files=3):
    path.mkdir(parents=True)
    size = -(-table.num_rows // files)
    for i in range(files):
        pq.write_table(table.slice(i * size, size), path / f"part-{i}.parquet", row_group_size=1700)
    return path


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    table = make(1)
    return table, write(tmp_path_factory.mktemp("old") / "d", table)


def columns(result):
    return {c["name"]: c for c in result["columns"]}


def test_statistics_are_those_of_pyarrow(old):
    table, path = old
    result = run_json("inspect", "data", path)
    assert result["rows"] == ROWS and result["files"] == 3
    got = columns(result)
    assert list(got) == table.column_names
    for name in ("user", "age", "big"):
        column = table[name]
        assert got[name]["min"] == pc.min(column).as_py() and got[name]["max"] == pc.max(column).as_py()
        assert got[name]["mean"] == pytest.approx(pc.mean(column).as_py(), rel=1e-12)
    for name in table.column_names:
        assert got[name]["rows"] == ROWS and got[name]["nulls"] == table[name].null_count
    finite = table["price"].filter(pc.is_finite(table["price"]))
    assert (got["price"]["nan"], got["price"]["inf"], got["price"]["values"]) == (1, 2, len(finite))
    assert got["price"]["min"] == pc.min(finite).as_py() and got["price"]["max"] == pc.max(finite).as_py()
    assert got["price"]["mean"] == pytest.approx(pc.mean(finite).as_py(), rel=1e-12)
    lengths = pc.list_value_length(table["tags"])
    assert got["tags"]["list_length_mean"] == pytest.approx(pc.mean(lengths).as_py(), rel=1e-12)
    assert got["tags"]["values"] == pc.sum(lengths).as_py()
    assert got["nothing"]["nulls"] == ROWS and got["nothing"]["top"] == [] and got["nothing"]["distinct"] == 0


def test_distinct_counts_are_exact_for_few_and_near_for_many(old):
    table, path = old
    got = columns(run_json("inspect", "data", path))
    for name in ("age", "city", "big"):
        assert got[name]["distinct_exact"] and got[name]["distinct"] == len(set(table[name].drop_null().to_pylist()))
    assert got["tags"]["distinct"] == 5
    for name in ("user", "price"):
        assert not got[name]["distinct_exact"]
        truth = len({v for v in table[name].to_pylist() if not isinstance(v, float) or math.isfinite(v)})
        assert got[name]["distinct"] == pytest.approx(truth, rel=5 * 0.0082)


def test_top_counts_are_exact_or_bounded(old):
    table, path = old
    got = columns(run_json("inspect", "data", path))
    counts = collections.Counter(table["city"].to_pylist())
    assert got["city"]["top_count_error_max"] == 0
    assert [(t["value"], t["count"]) for t in got["city"]["top"]] == sorted(counts.items(), key=lambda c: (-c[1], c[0]))[:10]
    elements = collections.Counter(v for row in table["tags"].to_pylist() if row for v in row)
    assert {int(t["value"]): t["count"] for t in got["tags"]["top"]} == elements
    [first], error = got["user"]["top"], got["user"]["top_count_error_max"]
    assert first["value"] == "42" and 0 < error <= ROWS / 2049
    assert first["count"] <= ROWS // 3 <= first["count"] + error


def test_result_depends_on_neither_threads_nor_which_columns_were_asked_for(old):
    _, path = old
    assert run("inspect", "data", path, "--threads", "1", "--json").stdout == run("inspect", "data", path, "--threads", "5", "--json").stdout
    some = run_json("inspect", "data", path, "--columns", "city,user")
    assert [c["name"] for c in some["columns"]] == ["city", "user"]
    assert columns(some)["user"] == columns(run_json("inspect", "data", path))["user"]


def test_table_for_people(old):
    _, path = old
    lines = run("inspect", "data", f"{path}/part-0.parquet", f"{path}/part-1*").stdout.splitlines()
    assert lines[0] == "20000 rows in 2 files"
    age = next(line.split() for line in lines if line.startswith("age "))
    assert age[:4] == ["age", "int32", "20000", "2000"]
    assert any(line.startswith("  user: 42 ") and "more)" in line for line in lines)


def psi(a, b):
    a, b = ([max(1e-4, x / sum(side)) for x in side] for side in (a, b))
    return sum((y - x) * math.log(y / x) for x, y in zip(a, b))


def test_drift_of_equal_data_is_zero(old):
    _, path = old
    result = run_json("inspect", "data", path, "--against", path)
    assert {(c["verdict"], c["psi"], c["null_psi"], c["new_distinct"]) for c in result["columns"]} == {
        ("steady", 0, 0, None), ("steady", None, 0, None)}
    assert columns(result)["city"]["unseen_share_max"] == 0


def test_drift_equals_the_index_computed_by_hand(old, tmp_path):
    table, path = old
    moved = make(2, shift=3, new_city=1500, null_every=4).drop_columns(["big"])
    moved = moved.set_column(moved.schema.get_field_index("tags"), "tags", pa.array(["x"] * ROWS))
    other = write(tmp_path / "new", moved, files=2)
    result = run_json("inspect", "data", path, "--against", other)
    got = columns(result)
    assert result["not_compared"] == ["big: only in the reference", "tags: list<element: int64> in the reference, string in the other"]

    drift = [max(c["psi"] or 0, c["null_psi"]) for c in result["columns"]]
    assert drift == sorted(drift, reverse=True)
    assert result["columns"][0]["name"] == "price" and got["price"]["verdict"] == "different"
    assert got["user"]["verdict"] == "steady"

    # The sampled quantiles of 30000 normals: near the exact ones.
    old_price, new_price = (sorted(v for v in t["price"].to_pylist() if math.isfinite(v)) for t in (table, moved))
    cuts = [old_price[-(-len(old_price) * i // 10) - 1] for i in range(1, 10)]
    def binned(values):
        return [sum(lo < v <= hi for v in values) for lo, hi in zip([-math.inf, *cuts], [*cuts, math.inf])]
    assert got["price"]["psi"] == pytest.approx(psi(binned(old_price), binned(new_price)), rel=0.1)
    assert got["price"]["bins"] == "quantiles" and got["price"]["unseen_share_min"] is None

    # 31 cities: all counts are exact on both sides, and so is all that follows.
    before, after = (collections.Counter(t["city"].to_pylist()) for t in (table, moved))
    top = [c for c, _ in sorted(before.items(), key=lambda c: (-c[1], c[0]))[:20]]
    bins = [[side[c] for c in top] + [ROWS - sum(side[c] for c in top)] for side in (before, after)]
    assert got["city"]["psi"] == pytest.approx(psi(*bins), rel=1e-9)
    unseen = sum(n for c, n in after.items() if c not in before) / ROWS
    assert unseen >= 0.05
    assert got["city"]["unseen_share_min"] == got["city"]["unseen_share_max"] == pytest.approx(unseen, rel=1e-12)

    assert got["age"]["null_share_difference"] == pytest.approx(0.25 - 0.1, rel=1e-12)
    assert got["age"]["null_psi"] == pytest.approx(psi([3000, 27000], [7500, 22500]), rel=1e-9)
    assert got["age"]["verdict"] == "moved"
    users = [set(t["user"].to_pylist()) for t in (table, moved)]
    assert got["user"]["new_distinct"] == pytest.approx(len(users[1] - users[0]), rel=0.1)

    lines = run("inspect", "data", path, "--against", other).stdout.splitlines()
    assert lines[3].split()[:2] == ["price", "different"]
    assert lines[-2] == "not compared: big: only in the reference"


def test_usage(old, tmp_path):
    _, path = old
    assert "no column nope" in run("inspect", "data", path, "--columns", "nope", code=2).stderr
    assert "inspect data" in run("inspect", path, "--against", path, code=2).stderr
    assert "none" in run("inspect", "data", tmp_path / "none", code=3).stderr
    named_data = write(tmp_path / "data", old[0], files=1)
    assert run_json("inspect", "data", cwd=named_data.parent)["kind"] == "data set"


def test_damaged_page_is_named(old, tmp_path):
    table, _ = old
    path = write(tmp_path / "d", table, files=1) / "part-0.parquet"
    content = bytearray(path.read_bytes())
    meta = pq.ParquetFile(path).metadata.row_group(2).column(1)
    begin = meta.dictionary_page_offset or meta.data_page_offset
    content[begin:begin + 30] = b"\xff" * 30
    path.write_bytes(content)
    stderr = run("inspect", "data", path, code=3).stderr
    assert "part-0.parquet: row group 2: column age" in stderr
