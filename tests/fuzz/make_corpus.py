"""Writes the seeds of fuzz_sample_file: small real files of every format, some of them Spark's, and texts of predicates.

usage: make_corpus.py DIRECTORY
"""
import gzip
import io
import pathlib
import sys

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

SPARK = pathlib.Path(__file__).resolve().parents[2] / "sample_io/testdata/spark"
FORMATS = ["parquet", "arrow", "arrows", "csv", "tsv", "csv.gz", "text"]
ROWS = 12
FLAT = pa.table({
    "a": pa.array([None if i % 5 == 0 else i for i in range(ROWS)], pa.int64()),
    "f": pa.array([i / 4 for i in range(ROWS)], pa.float32()),
    "s": pa.array([f"v{i % 3}" for i in range(ROWS)])})
WIDE = pa.table({
    "a": pa.array(range(ROWS), pa.int32()),
    "d": pa.array([f"v{i % 3}" for i in range(ROWS)]).dictionary_encode(),
    "l": pa.array([None if i % 4 == 0 else list(range(i % 3)) for i in range(ROWS)], pa.list_(pa.int64())),
    "m": pa.array([[("k", i * 0.5)] for i in range(ROWS)], pa.map_(pa.string(), pa.float64())),
    "u": pa.array([{"age": i, "city": "x"} for i in range(ROWS)]),
    "imp": pa.array([[{"item": i, "click": 0.0}] * (i % 3) for i in range(ROWS)]),
    "t": pa.array([i * 10**6 for i in range(ROWS)], pa.timestamp("us")),
    "c": pa.array([None] * ROWS, pa.decimal128(9, 2))})
TEXTS = ["country = 'US' and ds >= 20260801", "not (a in (1, 2.5e3) or `b c` is not null)", "a <> 'it''s'",
         "if(shows == 0, 0, clicks / shows)", "min(a, -b, 3) * log1p(c) <= 1"]


def parquet(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def arrow(table, open_writer):
    out = io.BytesIO()
    with open_writer(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return out.getvalue()


def csv(table, delimiter=","):
    out = io.BytesIO()
    pc.write_csv(table, out, pc.WriteOptions(delimiter=delimiter))
    return out.getvalue()


def seeds():
    for table in (FLAT, WIDE):
        yield "parquet", parquet(table, row_group_size=7)
        yield "parquet", parquet(table, compression="none", use_dictionary=False, write_page_index=True)
        yield "parquet", parquet(table, compression="gzip", data_page_version="2.0", use_deprecated_int96_timestamps=True)
        yield "arrow", arrow(table, ipc.new_file)
        yield "arrows", arrow(table, ipc.new_stream)
    yield "parquet", parquet(FLAT, compression="none", use_dictionary=False,
                             column_encoding={"a": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT", "s": "DELTA_BYTE_ARRAY"})
    for path in sorted(SPARK.glob("*.parquet")):
        yield "parquet", path.read_bytes()
    yield "csv", csv(FLAT)
    yield "tsv", csv(FLAT, "\t")
    yield "csv.gz", gzip.compress(csv(FLAT), mtime=0)
    for text in TEXTS:
        yield "text", text.encode()


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for number, (kind, content) in enumerate(seeds()):
        (out / f"{number:02d}-{kind}").write_bytes(bytes([FORMATS.index(kind)]) + content)


if __name__ == "__main__":
    main()
