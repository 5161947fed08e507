"""Parquet as other programs write it: every encoding, codec and type reads as the same values."""

import datetime
import decimal
import math

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import run_json

ROWS = 5000
EPOCH = datetime.datetime(1970, 1, 1)
TIMES = [EPOCH + datetime.timedelta(seconds=1785542400 + 37 * i, microseconds=i % 1000) for i in range(ROWS)]


def table():
    def some(values, null_every):
        return [None if i % null_every == 0 else v for i, v in enumerate(values)]
    return pa.table({
        "id": pa.array([(i * 7919) % 100003 - 50000 for i in range(ROWS)], pa.int64()),
        "narrow": pa.array(some([i % 300 - 150 for i in range(ROWS)], 11), pa.int32()),
        "real": pa.array(some([math.sin(i) * 1000 for i in range(ROWS)], 13), pa.float64()),
        "single": pa.array([float(i % 128) / 64 for i in range(ROWS)], pa.float32()),
        "text": pa.array(some([f"value {i % 97}" for i in range(ROWS)], 7)),
        "unique": pa.array([f"key-{i:06d}" for i in range(ROWS)]),
        "flag": pa.array([i % 3 == 0 for i in range(ROWS)], pa.bool_()),
        "day": pa.array([(TIMES[i]).date() for i in range(ROWS)], pa.date32()),
        "time": pa.array(some(TIMES, 17), pa.timestamp("us")),
        "money": pa.array(some([decimal.Decimal(i * 31 - 9000).scaleb(-2) for i in range(ROWS)], 19), pa.decimal128(9, 2)),
        "wide": pa.array([decimal.Decimal(10**20 + i).scaleb(-4) for i in range(ROWS)], pa.decimal128(38, 4)),
        "tags": pa.array(some([list(range(i % 5)) for i in range(ROWS)], 23), pa.list_(pa.int64())),
    })


TABLE = table()
PLAIN_COLUMNS = ["id", "narrow", "real", "single", "text", "unique"]


def encoded(**by_kind):
    kinds = {"id": "ints", "narrow": "ints", "real": "reals", "single": "reals", "text": "texts", "unique": "texts"}
    return {"use_dictionary": False, "column_encoding": {c: by_kind[kinds[c]] for c in PLAIN_COLUMNS}}


PYARROW = {
    "plain none": {"use_dictionary": False, "compression": "none"},
    "dictionary snappy": {"compression": "snappy"},
    "dictionary zstd v2 pages": {"compression": "zstd", "data_page_version": "2.0"},
    "dictionary gzip small pages": {"compression": "gzip", "data_page_size": 512},
    "dictionary that overflows": {"compression": "snappy", "dictionary_pagesize_limit": 200, "data_page_size": 512},
    "delta none": {"compression": "none", **encoded(ints="DELTA_BINARY_PACKED", reals="BYTE_STREAM_SPLIT", texts="DELTA_BYTE_ARRAY")},
    "delta length zstd": {"compression": "zstd", **encoded(ints="DELTA_BINARY_PACKED", reals="PLAIN", texts="DELTA_LENGTH_BYTE_ARRAY")},
    "byte stream split gzip": {"compression": "gzip", **encoded(ints="BYTE_STREAM_SPLIT", reals="BYTE_STREAM_SPLIT", texts="PLAIN")},
    "int96 times, as Spark": {"compression": "snappy", "use_deprecated_int96_timestamps": True},
    "millisecond-free old format": {"version": "1.0", "compression": "gzip", "coerce_timestamps": "us"},
    "decimals as integers": {"store_decimal_as_integer": True},
    "no statistics, no Arrow schema": {"write_statistics": False, "store_schema": False},
    "checksums and page index": {"write_page_checksum": True, "write_page_index": True},
    "one large row group": {"row_group_size": ROWS},
    "many small row groups": {"row_group_size": 501},
}
DUCKDB = {
    "snappy": "COMPRESSION snappy", "zstd": "COMPRESSION zstd", "gzip": "COMPRESSION gzip",
    "uncompressed": "COMPRESSION uncompressed", "delta": "COMPRESSION zstd, PARQUET_VERSION v2",
    "small groups": "ROW_GROUP_SIZE 2048"}


def statistics(path):
    report = run_json("inspect", "data", path)
    assert report["rows"] == ROWS
    out = {c["name"]: c for c in report["columns"]}
    for column in out.values():
        column.pop("type")  # Storage: string or large_string, list<item> or list<element>.
        column["top"] = sorted(map(str, column.get("top", [])))
        if column.get("mean") is not None:  # Summed row group by row group.
            column["mean"] = round(column["mean"], 6)
    return out


@pytest.fixture(name="truth", scope="module")
def truth_fixture(tmp_path_factory):
    path = tmp_path_factory.mktemp("truth") / "a.parquet"
    pq.write_table(TABLE, path)
    return statistics(path)


def test_values_are_those_of_python(truth):
    seconds = [int((t - EPOCH).total_seconds()) for i, t in enumerate(TIMES) if i % 17]
    assert (truth["time"]["min"], truth["time"]["max"]) == (min(seconds), max(seconds))
    assert truth["time"]["nulls"] == len(TIMES) - len(seconds)
    assert truth["day"]["distinct"] == len(set(TABLE.column("day").to_pylist()))
    money = [float(m) for m in TABLE.column("money").to_pylist() if m is not None]
    assert (truth["money"]["min"], truth["money"]["max"]) == (min(money), max(money))
    assert truth["wide"]["max"] == float(max(TABLE.column("wide").to_pylist()))
    assert truth["text"]["distinct"] == len(set(TABLE.column("text").to_pylist()) - {None})
    assert truth["id"]["min"] == min(TABLE.column("id").to_pylist())
    assert truth["real"]["min"] == min(r for r in TABLE.column("real").to_pylist() if r is not None)
    assert truth["flag"]["mean"] == round(sum(i % 3 == 0 for i in range(ROWS)) / ROWS, 6)
    assert truth["tags"]["values"] == sum(len(t) for t in TABLE.column("tags").to_pylist() if t)


@pytest.mark.parametrize("name", PYARROW)
def test_pyarrow(tmp_path, truth, name):
    pq.write_table(TABLE, tmp_path / "a.parquet", **PYARROW[name])
    assert statistics(tmp_path / "a.parquet") == truth


@pytest.mark.parametrize("name", DUCKDB)
def test_duckdb(tmp_path, truth, name):
    con = duckdb.connect()
    con.register("source", TABLE)
    con.execute(f"COPY (SELECT * FROM source) TO '{tmp_path}/a.parquet' (FORMAT parquet, {DUCKDB[name]})")
    con.close()
    assert statistics(tmp_path / "a.parquet") == truth
