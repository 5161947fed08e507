"""Where data comes from: formats, patterns, remote file systems, other programs' files."""

import boto3
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from harness import run, run_json, write_config

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


def small_table(rows=1000, start=0):
    return pa.table({
        "user": pa.array(range(start, start + rows), pa.int64()),
        "price": pa.array([i / 4 for i in range(rows)], pa.float64()),
        "city": pa.array([f"c{i % 7}" for i in range(rows)]),
        "click": pa.array([i % 2 for i in range(rows)], pa.int64())})


def columns(path, **kwargs):
    """What `inspect --verify` says of each column, by name."""
    report = run_json("inspect", path, "--verify", **kwargs)
    return report, {c["name"]: c for c in report["columns"]}


@pytest.fixture(scope="module")
def s3():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
                          aws_access_key_id="test", aws_secret_access_key="test")
    client.create_bucket(Bucket="logs")
    yield client, f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    server.stop()


def put(s3, tmp_path, key, table):
    path = tmp_path / "put"
    pq.write_table(table, path, row_group_size=300)
    s3[0].upload_file(str(path), "logs", key)


def test_s3_directory_range_and_glob(s3, tmp_path):
    for day in ("01", "02", "04"):
        put(s3, tmp_path, f"a b/ds={day}/part-0.parquet", small_table(start=int(day) * 1000))
    put(s3, tmp_path, "a b/_tmp/part-0.parquet", small_table())
    s3[0].put_object(Bucket="logs", Key="a b/ds=01/notes.txt", Body=b"hello")
    for pattern, rows, greatest in [("a b", 3000, 4999), ("a b/ds={02..09}", 2000, 4999), ("a b/ds=0[12]/*.parquet", 2000, 2999),
                                    ("a b/ds={01,04}/", 2000, 4999), ("a b/ds=02/part-0.parquet", 1000, 2999)]:
        report, by_name = columns(f"s3://logs/{pattern}{s3[1]}", env=KEYS)
        assert report["rows"] == rows, pattern
        assert by_name["user"]["max"] == greatest
        assert by_name["ds"]["type"] == "int64"


def test_s3_csv_and_arrow(s3, tmp_path):
    table = small_table()
    pc.write_csv(table, tmp_path / "a.csv")
    pf.write_feather(table, tmp_path / "b.feather")
    for name in ("a.csv", "b.feather"):
        s3[0].upload_file(str(tmp_path / name), "logs", f"formats/{name}")
    report, by_name = columns(f"s3://logs/formats{s3[1]}", env=KEYS)
    assert report["rows"] == 2000 and by_name["price"]["max"] == 249.75 and by_name["city"]["max"] == "c6"


def test_s3_errors_name_the_path(s3):
    stderr = run("inspect", f"s3://logs/nothing{s3[1]}", code=3, env=KEYS).stderr
    assert "s3://logs/nothing" in stderr
    stderr = run("inspect", f"s3://no-such-bucket/x{s3[1]}", code=3, env=KEYS).stderr
    assert "no-such-bucket" in stderr


def test_s3_trains_to_the_same_model_as_local_files(s3, tmp_path, data):
    for path in sorted((data / "train").rglob("*.parquet")):
        s3[0].upload_file(str(path), "logs", f"train/{path.relative_to(data / 'train')}")
    losses = []
    for name, train in [("local", data / "train"), ("remote", f"s3://logs/train{s3[1]}")]:
        config = write_config(tmp_path / f"{name}.yaml", data, tmp_path / name)
        result = run_json("train", "--config", config, "--set", f"data.train={train}", env=KEYS)
        losses.append(result["logloss"])
    assert losses[0] == losses[1]
