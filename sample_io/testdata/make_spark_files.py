"""Writes testdata/spark: Parquet as Spark itself writes it, one small file a setting, all of the same rows.

Run with pyspark installed and a Java runtime: python make_spark_files.py spark
spark_file_test.cc computes the values by the same formulas and reads every file.
"""
import datetime
import decimal
import pathlib
import shutil
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.types import (ArrayType, BooleanType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType,
                               MapType, ShortType, StringType, StructField, StructType, TimestampType)

ROWS = 40
FIRST_DAY = datetime.date(2026, 8, 1)
FIRST_TIME = datetime.datetime(2026, 8, 1, tzinfo=datetime.timezone.utc)
BEFORE_1970 = datetime.datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=datetime.timezone.utc)
IMPRESSION = StructType([StructField("item", LongType()), StructField("price", FloatType()), StructField("word", StringType())])
SCHEMA = StructType([
    StructField("id", LongType(), False),
    StructField("narrow", IntegerType()),
    StructField("short", ShortType()),
    StructField("real", DoubleType()),
    StructField("single", FloatType()),
    StructField("text", StringType()),
    StructField("flag", BooleanType()),
    StructField("day", DateType()),
    StructField("time", TimestampType()),
    StructField("money", DecimalType(9, 2)),
    StructField("wide", DecimalType(18, 4)),
    StructField("huge", DecimalType(38, 6)),
    StructField("tags", ArrayType(LongType(), True)),
    StructField("full_tags", ArrayType(LongType(), False)),
    StructField("words", ArrayType(StringType(), True)),
    StructField("scores", MapType(StringType(), DoubleType())),
    StructField("user", StructType([StructField("age", IntegerType()), StructField("city", StringType())])),
    StructField("impressions", ArrayType(IMPRESSION, True)),
    StructField("full_impressions", ArrayType(IMPRESSION, False)),
])
SETTINGS = {  # Of the session, and of the writer.
    "snappy_int96": ({}, {"compression": "snappy"}),
    "zstd_micros": ({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}, {"compression": "zstd"}),
    "gzip_millis": ({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}, {"compression": "gzip"}),
    "plain_pages": ({}, {"compression": "none", "parquet.enable.dictionary": "false"}),
    "legacy": ({"spark.sql.parquet.writeLegacyFormat": "true"}, {"compression": "snappy"}),
    "v2_delta": ({}, {"compression": "zstd", "parquet.writer.version": "PARQUET_2_0", "parquet.enable.dictionary": "false"}),
    "row_groups": ({}, {"compression": "snappy", "parquet.block.size": "1", "parquet.page.size": "64",
                        "parquet.page.size.row.check.min": "10", "parquet.block.size.row.check.min": "10"}),
}


def impressions(i):
    return [{"item": 100 * i + j, "price": None if j == 1 else (i + j) / 4, "word": f"w{j}"} for j in range(i % 3)]


def row(i):
    def unless(every, value):
        return None if i % every == 0 else value
    return (i * 7919 - 200000, unless(5, i - 20), i % 7 - 3, unless(4, i / 8), i / 4, unless(6, f"v{i % 7} é"), i % 3 == 0,
            FIRST_DAY + datetime.timedelta(days=i),
            BEFORE_1970 if i == 3 else unless(8, FIRST_TIME + datetime.timedelta(seconds=3601 * i, microseconds=123000)),
            unless(7, decimal.Decimal(125 * i - 1000).scaleb(-2)), decimal.Decimal(31 * i - 500).scaleb(-4),
            decimal.Decimal(10**20 + i).scaleb(-6),
            unless(9, [10 * i + j if j != 2 else None for j in range(i % 4)]), [10 * i + j for j in range(i % 4)],
            [f"t{j}" for j in range(i % 3)], {f"k{j}": i * 0.5 + j for j in range(i % 3)},
            unless(10, {"age": 20 + i, "city": f"c{i % 4}"}), unless(11, impressions(i)), impressions(i))


def write(spark, name, out):
    session, writer = SETTINGS[name]
    for key, value in session.items():
        spark.conf.set(key, value)
    frame = spark.createDataFrame([row(i) for i in range(ROWS)], SCHEMA).coalesce(1)
    with tempfile.TemporaryDirectory() as scratch:
        frame.write.options(**writer).parquet(f"{scratch}/out")
        [part] = pathlib.Path(scratch, "out").glob("part-*.parquet")
        shutil.copyfile(part, out / f"{name}.parquet")
    for key in session:
        spark.conf.unset(key)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
             .config("spark.sql.session.timeZone", "UTC").getOrCreate())
    for name in SETTINGS:
        write(spark, name, out)
    (out / "VERSION").write_text(f"Written by Spark {spark.version}\n")


if __name__ == "__main__":
    main()
