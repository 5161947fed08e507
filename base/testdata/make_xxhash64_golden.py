"""Writes xxhash64_golden.tsv: ids as Spark computes them.

Run with pyspark installed (any 3.x or later): python make_xxhash64_golden.py > xxhash64_golden.tsv
Columns: vocabulary, kind (string: value in hex of its UTF-8 bytes; bigint), value, the unsigned result of
xxhash64(lit(vocabulary), col).
"""
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, xxhash64
from pyspark.sql.types import LongType, StringType, StructField, StructType

VOCABULARIES = ["C1", "user_id", "", "商品", "a vocabulary name that is longer than thirty-two bytes"]
STRINGS = ["", "a", "abc", "1", "-1", "68fd1e64", "user 42", "naïve café", "日本語テキスト", "😀", "\t\n\\",
           "x" * 31, "x" * 32, "x" * 33, "0123456789" * 30]
BIGINTS = [0, 1, -1, 42, 4096, 2**31 - 1, 2**31, -2**31, 2**32, 2**53 + 1, 2**63 - 1, -2**63, 1234567890123456789]

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("# From Spark %s by make_xxhash64_golden.py" % spark.version)
for kind, spark_type, values, text in [
    ("string", StringType(), STRINGS, lambda v: v.encode().hex()),
    ("bigint", LongType(), BIGINTS, str),
]:
    frame = spark.createDataFrame([(v,) for v in values], StructType([StructField("v", spark_type)])).coalesce(1)
    for vocabulary in VOCABULARIES:
        rows = frame.select("v", xxhash64(lit(vocabulary), col("v")).alias("h")).collect()
        for row in rows:
            print(vocabulary, kind, text(row.v), row.h % 2**64, sep="\t")
