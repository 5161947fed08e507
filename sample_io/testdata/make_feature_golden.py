"""Writes feature_golden.tsv: ids of features as Spark computes them.

Run with pyspark installed (any 3.x or later): python make_feature_golden.py > feature_golden.tsv
Columns: case, integer, text, the unsigned id. The Spark expression of each case is in CASES; integers narrower than
bigint are cast to it, since Spark hashes them as four bytes and starling hashes integers of every width as eight.
"""
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, xxhash64
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

ROWS = [(0, ""), (1, "a"), (-1, "DE"), (42, "São Paulo"), (2**31 - 1, "x" * 40), (-2**31, "日本"), (20260801, "7")]
CASES = {
    "id of int32": lambda: xxhash64(lit("i"), col("i").cast("bigint")),
    "id of int16": lambda: xxhash64(lit("i"), col("i").cast("smallint").cast("bigint")),
    "id of text": lambda: xxhash64(lit("s"), col("s")),
    "shared vocabulary": lambda: xxhash64(lit("words"), col("s")),
    "salted": lambda: xxhash64(lit("s"), lit("v2"), col("s")),
    "combo": lambda: xxhash64(lit("i_x_s"), xxhash64(col("i").cast("bigint"), col("s"))),
    "int32 without a cast": lambda: xxhash64(lit("i"), col("i")),
}


def main():
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    schema = StructType([StructField("i", IntegerType()), StructField("s", StringType())])
    frame = spark.createDataFrame(ROWS, schema).coalesce(1)
    print(f"# From Spark {spark.version} by make_feature_golden.py")
    for name, expression in CASES.items():
        for row in frame.select("i", "s", expression().alias("h")).collect():
            print(name, row.i, row.s, row.h % 2**64, sep="\t")


if __name__ == "__main__":
    main()
