"""Finding files and lines, with ripgrep and without it."""

from pathlib import Path

import pytest

from tests.tools.calling import done, refused
from tests.tools.conftest import ENVIRONMENT
from tieline.tools import search
from tieline.tools.search import find_ripgrep
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace


@pytest.fixture
def project(root: Path) -> Path:
    """A small project."""
    for path, text in {
        "src/app.py": "import os\n\ndef main():\n    return 'needle'\n",
        "src/lib/tool.py": "NEEDLE = 1\n# needle\n",
        "src/lib/tool.ts": "const needle = 1\n",
        "docs/guide.md": "about the needle\r\n",
        ".github/ci.yml": "run: needle\n",
        ".git/config": "needle\n",
        "README": "nothing here\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    return root


def found(said: str) -> list[str]:
    """The answer, line by line."""
    return said.splitlines()


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("pattern", "path", "paths"),
    [
        ("*.py", ".", ["src/app.py", "src/lib/tool.py"]),
        ("src/*.py", ".", ["src/app.py"]),
        ("src/**/*.{py,ts}", "", ["src/app.py", "src/lib/tool.py", "src/lib/tool.ts"]),
        ("lib/*", "src", ["src/lib/tool.py", "src/lib/tool.ts"]),
        ("*.yml", ".", [".github/ci.yml"]),
        ("[!a-z]*", ".", ["README"]),
        ("*.rs", ".", ["No file matches."]),
        ("config", ".", ["No file matches."]),
    ],
)
async def test_files_are_found_by_their_path(
    searching: WorkspaceToolbox, pattern: str, path: str, paths: list[str]
) -> None:
    assert found(await done(searching, "search_files", pattern=pattern, path=path)) == paths


@pytest.mark.usefixtures("project")
async def test_lines_are_found_by_a_regular_expression(searching: WorkspaceToolbox) -> None:
    said = found(await done(searching, "search_content", pattern=r"n\w{4}e$|'needle'"))
    assert said == [
        ".github/ci.yml",
        "  1: run: needle",
        "docs/guide.md",
        "  1: about the needle",
        "src/app.py",
        "  4:     return 'needle'",
        "src/lib/tool.py",
        "  2: # needle",
    ]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"files": "*.ts"}, ["src/lib/tool.ts", "  1: const needle = 1"]),
        ({"files": "src/*"}, ["src/app.py", "  4:     return 'needle'"]),
        ({"path": "docs"}, ["docs/guide.md", "  1: about the needle"]),
        ({"path": "src/lib/tool.py", "ignore_case": True}, ["src/lib/tool.py", "  1: NEEDLE = 1", "  2: # needle"]),
        ({"path": "src/app.py", "context": 2}, ["src/app.py", "  2- ", "  3- def main():", "  4:     return 'needle'"]),
        ({"path": "src", "files_only": True}, ["src/app.py", "src/lib/tool.py", "src/lib/tool.ts"]),
        ({"path": "README"}, ["No matches."]),
    ],
)
async def test_a_search_can_be_narrowed(
    searching: WorkspaceToolbox, arguments: dict[str, object], lines: list[str]
) -> None:
    assert found(await done(searching, "search_content", pattern="needle", **arguments)) == lines


async def test_matches_far_from_one_another_are_told_apart(searching: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("".join(f"{number}\n" for number in range(1, 31)))
    said = found(await done(searching, "search_content", pattern="^(5|6|20)$", context=1))
    assert said == ["a", "  4- 4", "  5: 5", "  6: 6", "  7- 7", "  --", "  19- 19", "  20: 20", "  21- 21"]


async def test_a_pattern_can_be_plain_text(searching: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("f(x)\nfx\n")
    assert found(await done(searching, "search_content", pattern="f(x)", literal=True)) == ["a", "  1: f(x)"]
    assert found(await done(searching, "search_content", pattern="-x", literal=True)) == ["No matches."]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[z-a]"])
async def test_a_pattern_that_cannot_be_read_is_explained(
    searching: WorkspaceToolbox, root: Path, pattern: str
) -> None:
    (root / "a").write_text("a\n")
    assert "regex parse error" in await refused(searching, "search_content", pattern=pattern)


@pytest.mark.parametrize("pattern", ["{a,b", "{" * 9 + "}" * 9, "{a,b}" * 7])
async def test_a_pattern_of_paths_that_cannot_be_read_is_explained(searching: WorkspaceToolbox, pattern: str) -> None:
    assert "is not valid" in await refused(searching, "search_files", pattern=pattern)
    assert "is not valid" in await refused(searching, "search_content", pattern="x", files=pattern)


async def test_where_to_search_has_to_exist(searching: WorkspaceToolbox) -> None:
    assert "there is no `gone`" in await refused(searching, "search_content", pattern="x", path="gone")
    assert "there is no `gone`" in await refused(searching, "search_files", pattern="x", path="gone")


async def test_results_have_a_bound_and_say_so(searching: WorkspaceToolbox, root: Path) -> None:
    for number in range(10):
        (root / f"{number}.txt").write_text("needle\n" * 10)
    said = found(await done(searching, "search_content", pattern="needle", limit=15))
    assert len([line for line in said if line.endswith(": needle")]) == 15
    assert said[-1].startswith("(there is more")
    assert found(await done(searching, "search_files", pattern="*.txt", limit=2)) == [
        "0.txt",
        "1.txt",
        "(the first 2; there are more: narrow the pattern)",
    ]


async def test_of_a_long_line_the_part_that_matches_is_shown(searching: WorkspaceToolbox, root: Path) -> None:
    (root / "min.js").write_text("a" * 100_000 + "needle" + "b" * 100_000 + "\n")
    said = found(await done(searching, "search_content", pattern="needle"))
    assert said[0] == "min.js"
    assert said[1].startswith("  1: …aaa")
    assert "aaneedlebb" in said[1]
    assert len(said[1]) < 400


async def test_binary_files_and_odd_names_do_no_harm(searching: WorkspaceToolbox, root: Path) -> None:
    (root / "binary").write_bytes(b"needle\n\0\0needle\n")
    (root / "new\nline").write_text("needle\n")
    (root / "caf\udce9").write_text("needle\n")
    (root / "latin").write_bytes(b"gr\xfcn needle\n")
    said = found(await done(searching, "search_content", pattern="needle"))
    assert said == ["caf\ufffd", "  1: needle", "latin", "  1: gr\ufffdn needle"]
    assert "caf\ufffd" in found(await done(searching, "search_files", pattern="c*"))


async def test_links_are_not_followed_when_searching(searching: WorkspaceToolbox, root: Path, outside: Path) -> None:
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret.txt")
    (root / "own").write_text("no secret\n")
    assert found(await done(searching, "search_content", pattern="secret")) == ["own", "  1: no secret"]
    assert found(await done(searching, "search_files", pattern="**")) == ["own"]


async def test_hidden_paths_are_found_by_nobody(workspace: Workspace, project: Path) -> None:
    for ripgrep in (find_ripgrep(ENVIRONMENT["PATH"]), None):
        box = WorkspaceToolbox(workspace, environment={}, ripgrep=ripgrep, hides=lambda path: path.startswith("src/"))
        assert "src" not in await done(box, "search_content", pattern="needle")
        assert "src" not in await done(box, "search_files", pattern="**")


@pytest.mark.parametrize("report", ["way_out/secret.txt", "../outside/secret.txt", "mine.txt"])
async def test_what_the_search_program_reports_is_not_believed(root: Path, outside: Path, report: str) -> None:
    """Ours: it walks by names. Whatever it may have seen through a name that was swapped, the model does not see it."""
    (root / "way_out").symlink_to(outside)
    (root / "mine.txt").write_text("something else\nthe truth\n")
    liar = root.parent / "liar"
    lines = rf"{report}\0001:1:the secret\nmine.txt\0002:5:the truth\n"
    liar.write_text(
        f"#!/bin/sh\ncase \"$*\" in *--files*) printf '{report}\\000mine.txt\\000';; *) printf '{lines}';; esac\n"
    )
    liar.chmod(0o755)
    box = WorkspaceToolbox(Workspace(root), environment={}, ripgrep=str(liar))
    said = await done(box, "search_content", pattern="x")
    assert said == ("mine.txt\n  2: the truth")
    listed = await done(box, "search_files", pattern="*.txt")
    assert set(listed.splitlines()) == {"mine.txt"}


async def test_a_search_that_takes_too_long_is_ended(
    box: WorkspaceToolbox, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regular expression that tries every way to fail: only ending the process helps."""
    monkeypatch.setattr(search, "TIMEOUT", 0.5)
    (root / "a").write_text("first\n" + "a" * 40 + "!\n")
    said = await done(box, "search_content", pattern="(a+)+$")
    assert "stopped after" in said


async def test_a_search_that_finds_far_too_much_is_ended(
    searching: WorkspaceToolbox, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_FOUND", 2000)
    (root / "a").write_text("needle\n" * 100_000)
    said = await done(searching, "search_content", pattern="needle", limit=1000)
    assert "  1: needle\n" in said
    assert "narrow the search" in said


async def test_what_git_ignores_is_left_out(searching: WorkspaceToolbox, root: Path) -> None:
    (root / ".gitignore").write_text("# made\nbuild/\n*.log\n!keep.log\n/top.py\n\ndocs/*.tmp\n")
    inner = root / "sub" / ".gitignore"
    for name in (
        *("build/out.py", "keep.py", "x.log", "keep.log", "top.py", "sub/top.py", "sub/build", "docs/a.tmp"),
        *("docs/in/a.tmp", "sub/y.log", "sub/own.py", "sub/other.py"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("needle\n")
    inner.write_text("!y.log\nown.py\n")
    left = ["docs/in/a.tmp", "keep.log", "keep.py", "sub/build", "sub/other.py", "sub/top.py", "sub/y.log"]
    listed = found(await done(searching, "search_files", pattern="**"))
    assert [path for path in listed if not path.endswith(".gitignore")] == left
    matched = found(await done(searching, "search_content", pattern="needle", files_only=True))
    assert matched == left
    everything = await done(searching, "search_files", pattern="*.{py,log}", include_ignored=True)
    assert {"build/out.py", "x.log", "top.py", "sub/own.py"} <= set(everything.splitlines())
    assert await done(searching, "search_files", pattern="*", path="build") == "build/out.py"


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("a$", [1, 2]),
        ("^b", [3]),
        (r"a\Z", [1, 2]),
        (r"\Ab", [3]),
        ("a(?!b)", [1, 2]),
        ("(?<!x)b", [3]),
        (r"b\s*c", [3]),
        ("nowhere", []),
    ],
)
async def test_without_ripgrep_an_expression_sees_one_line_at_a_time(
    box: WorkspaceToolbox, root: Path, pattern: str, lines: list[int]
) -> None:
    (root / "text").write_bytes(b"xa\r\na\nb c\n")
    said = found(await done(box, "search_content", pattern=pattern))
    assert [int(line.split(":")[0]) for line in said[1:]] == lines


async def test_without_ripgrep_folders_hardly_ever_meant_are_left_out(box: WorkspaceToolbox, root: Path) -> None:
    (root / "node_modules").mkdir()
    (root / "node_modules" / "x.js").write_text("needle\n")
    assert found(await done(box, "search_content", pattern="needle")) == ["No matches."]
    everything = await done(box, "search_content", pattern="needle", include_ignored=True)
    assert found(everything) == ["node_modules/x.js", "  1: needle"]


@pytest.mark.parametrize(
    ("script", "is_taken"),
    [
        ("echo ripgrep 15.1.0", True),
        ("echo ripgrep 13.0.0", True),
        ("echo ripgrep 12.1.1", False),
        ("echo something else", False),
        ("echo ripgrep 15.1.0; exit 1", False),
        ("kill -SEGV $$", False),
    ],
)
def test_ripgrep_is_taken_from_the_path_if_it_runs_and_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, is_taken: bool
) -> None:
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert find_ripgrep(f".:{tmp_path}") == (str(program) if is_taken else None)
    assert find_ripgrep(".") is None, "never from the current folder"
    assert find_ripgrep("") is None


def test_a_ripgrep_that_hangs_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "VERSION_TIMEOUT", 0.2)
    (tmp_path / "rg").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "rg").chmod(0o755)
    assert find_ripgrep(f"{tmp_path}:/bin:/usr/bin") is None
