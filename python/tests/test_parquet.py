"""Parquet through pandas and pyarrow, on our server and on NFS-Ganesha."""

import fsspec
import pandas
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

ROWS = 200_000


@pytest.fixture(scope="module")
def frame():
    numbers = pandas.Series(range(ROWS))
    return pandas.DataFrame(
        {"number": numbers, "third": numbers % 3, "text": numbers.map(lambda number: f"row {number * 7919 % ROWS}")}
    )


def test_pandas_writes_and_reads_a_url(anywhere, frame):
    fs, place = anywhere
    url = fs.unstrip_protocol(f"{place}/frame.parquet")
    frame.to_parquet(url, row_group_size=20_000)
    pandas.testing.assert_frame_equal(pandas.read_parquet(url), frame)
    columns = pandas.read_parquet(url, columns=["third"])
    pandas.testing.assert_frame_equal(columns, frame[["third"]])


def test_pyarrow_reads_the_row_groups_that_a_filter_asks_for(anywhere, frame):
    fs, place = anywhere
    path = f"{place}/table.parquet"
    table = pyarrow.Table.from_pandas(frame)
    pyarrow.parquet.write_table(table, path, filesystem=fs, row_group_size=20_000)
    assert pyarrow.parquet.read_table(path, filesystem=fs) == table
    with fs.open(path, "rb") as file:
        parquet = pyarrow.parquet.ParquetFile(file)
        assert parquet.metadata.num_row_groups == ROWS // 20_000
        group = parquet.read_row_group(3, columns=["number"])
        assert group.column("number")[0].as_py() == 60_000
    few = pyarrow.parquet.read_table(path, filesystem=fs, filters=[("number", ">=", ROWS - 5)])
    assert few.column("number").to_pylist() == list(range(ROWS - 5, ROWS))


def test_a_partitioned_dataset(anywhere, frame):
    fs, place = anywhere
    frame.to_parquet(fs.unstrip_protocol(f"{place}/parts"), partition_cols=["third"])
    assert sorted(name.rpartition("/")[2] for name in fs.ls(f"{place}/parts", detail=False)) == [
        "third=0",
        "third=1",
        "third=2",
    ]
    dataset = pyarrow.dataset.dataset(f"{place}/parts", filesystem=fs, partitioning="hive")
    assert dataset.count_rows() == ROWS
    some = dataset.to_table(filter=pyarrow.compute.field("third") == 1, columns=["number"])
    assert sorted(some.column("number").to_pylist()) == list(range(1, ROWS, 3))


def test_pyarrow_s_file_system_over_ours(anywhere):
    fs, place = anywhere
    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    arrow.create_dir(f"{place}/a/b")
    with arrow.open_output_stream(f"{place}/a/b/file") as stream:
        stream.write(b"content")
    with arrow.open_append_stream(f"{place}/a/b/file") as stream:
        stream.write(b" and more")
    info = arrow.get_file_info(f"{place}/a/b/file")
    assert (info.type, info.size) == (pyarrow.fs.FileType.File, 16)
    arrow.move(f"{place}/a/b/file", f"{place}/a/moved")
    with arrow.open_input_file(f"{place}/a/moved") as file:
        assert file.read_at(4, 8) == b"and "
    arrow.delete_dir(f"{place}/a")
    assert arrow.get_file_info(f"{place}/a").type == pyarrow.fs.FileType.NotFound


def test_csv_with_compression(anywhere, frame):
    fs, place = anywhere
    url = fs.unstrip_protocol(f"{place}/frame.csv.gz")
    # pandas takes nfs:// for the web where it is not Parquet, so it is given an open file.
    with fsspec.open(url, "wt", compression="infer") as file:
        frame.head(1000).to_csv(file, index=False)
    with fsspec.open(url, "rt", compression="infer") as file:
        pandas.testing.assert_frame_equal(pandas.read_csv(file), frame.head(1000))
