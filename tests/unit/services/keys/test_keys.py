import logging
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from services.keys.key import new_key
from services.keys.key_file import KeyFileError, change_keys, read_keys
from services.keys.key_ring import LOOK_EVERY_S, KeyRing, KeyShare, Principal
from tests.support.keys import TOKEN, Keys, made_keys


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_key_is_not_in_its_file(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    content = keys.file.read_text()
    assert all(secret.split("_")[2] not in content for secret in keys.secrets.values())


def test_the_file_is_its_owners_alone_and_keeps_the_rights_that_it_is_given(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    assert keys.file.stat().st_mode & 0o777 == 0o600
    keys.file.chmod(0o640)
    keys.add("another", "search")
    assert keys.file.stat().st_mode & 0o777 == 0o640


def test_changes_at_the_same_time_lose_no_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"

    def add(number: int) -> None:
        _, key = new_key(f"key {number}", ("search",))
        change_keys(file, lambda keys: (*keys, key))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(40)))
    assert len(read_keys(file)) == 40


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    before = keys.file.read_bytes()
    with pytest.raises(ZeroDivisionError):
        change_keys(keys.file, lambda _: (1 / 0,))  # type: ignore[arg-type, return-value]  # it raises
    assert keys.file.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"keys.json"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2, "keys": []}', '{"keys": [{"id": "x"}]}', "\0"])
def test_a_file_that_holds_no_keys_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content)
    with pytest.raises(KeyFileError, match=r"keys\.json"):
        KeyRing(file)


def test_a_file_with_an_id_twice_is_refused(tmp_path: Path) -> None:
    file = made_keys(tmp_path).file
    key = read_keys(file)[0]
    entries = ",".join(key.model_dump_json() for _ in range(2))
    file.write_text(f'{{"version": 1, "keys": [{entries}]}}')
    with pytest.raises(KeyFileError, match="one id"):
        KeyRing(file)


@pytest.mark.parametrize("name", ["two\nlines", "turned\u202eround"])
def test_a_name_that_a_terminal_would_not_show_as_it_is_makes_no_key(name: str) -> None:
    with pytest.raises(ValidationError, match="line breaks"):
        new_key(name, ("search",))


def test_who_has_an_active_key_is_known(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    found = KeyRing(keys.file).of(keys.secrets["index"])
    assert isinstance(found, Principal)
    assert found.id == keys.id_of("index")
    assert (found.has("index"), found.has("search")) == (True, False)


@pytest.mark.parametrize("state", ["expired", "revoked"])
def test_a_key_that_is_no_longer_active_says_so_to_who_has_it_alone(tmp_path: Path, state: str) -> None:
    keys = made_keys(tmp_path)
    ring = KeyRing(keys.file)
    assert ring.of(keys.secrets[state]) == state
    for wrong in (keys.secrets[state][:-1] + "x", "", "rsk_0123456789ab_" + "0" * 48, "a" * 10_000, "\udcff"):
        assert ring.of(wrong) == "unknown"


def test_each_of_several_tokens_is_ours_and_has_every_scope() -> None:
    ring = KeyRing(None, [TOKEN, TOKEN + "-before"])
    for token in (TOKEN, TOKEN + "-before"):
        found = ring.of(token)
        assert isinstance(found, Principal)
        assert found.has("admin")
        assert found.may_touch("anything")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    keys, clock = made_keys(tmp_path), Clock()
    ring = KeyRing(keys.file, clock=clock)
    added = keys.add("added", "search")
    assert ring.of(added) == "unknown"
    clock.now += LOOK_EVERY_S
    assert isinstance(ring.of(added), Principal)


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_change_that_could_not_be_read_is_read_later(tmp_path: Path) -> None:
    keys, clock = made_keys(tmp_path), Clock()
    ring = KeyRing(keys.file, clock=clock)
    keys.revoke("all")
    clock.now += LOOK_EVERY_S
    with no_file_can_be_opened():
        assert isinstance(ring.of(keys.secrets["all"]), Principal)
    clock.now += LOOK_EVERY_S
    assert ring.of(keys.secrets["all"]) == "revoked"


def test_a_change_through_a_link_reaches_those_who_read_its_target(tmp_path: Path) -> None:
    keys, clock = made_keys(tmp_path), Clock()
    ring = KeyRing(keys.file, clock=clock)
    link = tmp_path / "elsewhere" / "keys.json"
    link.parent.mkdir()
    link.symlink_to(keys.file)
    Keys(link, keys.secrets).revoke("all")
    clock.now += LOOK_EVERY_S
    assert ring.of(keys.secrets["all"]) == "revoked"
    assert link.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_change_by_root_leaves_the_file_to_its_owner(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    os.chown(keys.file, 10_001, 10_002)
    keys.revoke("all")
    assert (keys.file.stat().st_uid, keys.file.stat().st_gid) == (10_001, 10_002)


def test_a_key_that_expires_is_refused_without_the_file_changing(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    soon = keys.add("soon", "search")
    identity, ends = keys.id_of("soon"), datetime.now(UTC) - timedelta(milliseconds=1)
    change_keys(
        keys.file,
        lambda every: tuple(key.model_copy(update={"expires": ends}) if key.id == identity else key for key in every),
    )
    assert KeyRing(keys.file).of(soon) == "expired"


def test_a_file_that_breaks_leaves_the_keys_before_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys, clock = made_keys(tmp_path), Clock()
    ring = KeyRing(keys.file, clock=clock)
    keys.file.write_text("{")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            clock.now += LOOK_EVERY_S
            assert isinstance(ring.of(keys.secrets["all"]), Principal)
    assert len(caplog.records) == 1


def test_a_key_may_be_bound_to_some_collections(tmp_path: Path) -> None:
    _, key = new_key("shop", ("search",), collections=("shop-*", "demo"))
    assert [key.may_touch(name) for name in ("shop-1", "demo", "demo2", "other", "shop")] == [True, True, *[False] * 3]


def test_a_share_is_a_rate_with_bursts_of_a_second(tmp_path: Path) -> None:
    clock = Clock()
    share = KeyShare(2.0, None, clock)
    assert [share.wait_s() for _ in range(3)] == [0.0, 0.0, 0.5]
    clock.now += 0.5
    assert share.wait_s() == 0.0
    clock.now += 60
    assert [share.wait_s() for _ in range(3)] == [0.0, 0.0, 0.5]


def test_a_share_bounds_the_requests_in_flight() -> None:
    share = KeyShare(None, 2)
    assert [share.enter() for _ in range(3)] == [True, True, False]
    share.leave()
    assert share.enter()


def test_reading_the_file_again_gives_no_key_a_new_share(tmp_path: Path) -> None:
    keys, clock = made_keys(tmp_path), Clock()
    secret = keys.add("slow", "search", per_second=1.0)
    ring = KeyRing(keys.file, clock=clock)
    first = ring.of(secret)
    assert isinstance(first, Principal)
    assert first.share.wait_s() == 0.0
    keys.add("other", "search")
    clock.now += LOOK_EVERY_S
    again = ring.of(secret)
    assert isinstance(again, Principal)
    assert again.share is first.share
