"""Which file is used, and that it is exactly what the user agreed to."""

from pathlib import Path

import pytest

from tieline.app.config import ConfigError
from tieline.app.trust import ConfigFinder, TrustStore, Untrusted, trusted_source

HARMLESS = b"demo = true\n"
HARMFUL = b"[tools]\nyolo = true\n"


def refuse(untrusted: Untrusted) -> bool:
    raise AssertionError(f"{untrusted.source.path} needs no agreement")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working directory; the user's own folder is beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def own(folder: Path) -> Path:
    return folder.parent / "config" / "tieline"


def test_what_was_shown_is_used_and_recorded_however_the_file_changes_meanwhile(folder: Path) -> None:
    file = folder / "tieline.toml"
    file.write_bytes(HARMLESS)

    def agree(untrusted: Untrusted) -> bool:
        assert untrusted.source.data == HARMLESS
        file.write_bytes(HARMFUL)
        return True

    found = ConfigFinder(own(folder), agree=agree, warn=print).find(None, folder)
    assert found is not None
    assert found.data == HARMLESS

    def disagree(untrusted: Untrusted) -> bool:
        assert (untrusted.standing, untrusted.source.data) == ("changed", HARMFUL)
        return False

    assert ConfigFinder(own(folder), agree=disagree, warn=print).find(None, folder) is None


def test_the_named_file_goes_before_the_trusted_one_and_that_before_the_users_own(folder: Path, tmp_path: Path) -> None:
    (folder / "tieline.toml").write_bytes(HARMLESS)
    own(folder).mkdir(parents=True)
    (own(folder) / "tieline.toml").write_bytes(b"")
    named = tmp_path / "named.toml"
    named.write_bytes(b"log = 'info'\n")
    finder = ConfigFinder(own(folder), agree=lambda _: True, warn=print)
    found = finder.find(None, folder)
    assert found is not None
    assert found.path == folder / "tieline.toml"
    trusting = ConfigFinder(own(folder), agree=refuse, warn=print)
    assert trusting.find(None, folder) == found
    assert trusting.find(named, folder) == (named, b"log = 'info'\n")
    (folder / "tieline.toml").unlink()
    assert trusting.find(None, folder) == (own(folder) / "tieline.toml", b"")


def test_a_no_falls_back_to_the_users_own_file(folder: Path) -> None:
    (folder / "tieline.toml").write_bytes(HARMFUL)
    own(folder).mkdir(parents=True)
    (own(folder) / "tieline.toml").write_bytes(HARMLESS)
    found = ConfigFinder(own(folder), agree=lambda _: False, warn=print).find(None, folder)
    assert found == (own(folder) / "tieline.toml", HARMLESS)
    assert TrustStore(own(folder)).all() == []


def test_where_nothing_can_be_recorded_a_yes_holds_once(folder: Path) -> None:
    (folder / "tieline.toml").write_bytes(HARMLESS)
    own(folder).parent.mkdir()
    own(folder).write_bytes(b"a file where the folder should be")
    told: list[str] = []
    finder = ConfigFinder(own(folder), agree=lambda _: True, warn=told.append)
    with pytest.raises(ConfigError):  # the user's own file cannot be read either
        ConfigFinder(own(folder), agree=lambda _: False, warn=told.append).find(None, folder)
    found = finder.find(None, folder)
    assert found is not None
    assert found.data == HARMLESS
    assert any("cannot be recorded" in line for line in told)


def test_the_users_own_file_is_used_without_asking_also_in_its_folder(folder: Path) -> None:
    own(folder).mkdir(parents=True)
    (own(folder) / "tieline.toml").write_bytes(HARMLESS)
    for here in (folder, own(folder)):
        found = trusted_source(own(folder), here)
        assert found is not None
        assert found.data == HARMLESS
    (folder / "tieline.toml").write_bytes(HARMFUL)
    assert trusted_source(own(folder), folder) is None
