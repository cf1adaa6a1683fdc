"""Searches and directories: what clients show, and the typed results made of it."""

import json
from typing import Any

import pytest

from tests.each import each
from tests.wire.coding_clients import CLAUDE_CODE, CLINE, OPENCODE, PI, STRING, tool
from tests.wire.exec_running import HERE, result, told
from tieline.wire.cursor.execs.listing_results import MAX_DEPTH, MAX_ENTRIES, tree
from tieline.wire.cursor.execs.search_results import MAX_LINES

CONTENT: dict[str, Any] = {
    "matches": [
        {"file": "./src/util/__init__.py", "matches": [{"lineNumber": 2, "content": '    return "hello"'}]},
        {"file": "./src/main.py", "matches": [{"lineNumber": 4, "content": '    print("hello")'}]},
    ],
    "totalLines": 2,
    "totalMatchedLines": 2,
}
FILES: dict[str, Any] = {"files": ["./src/util/__init__.py", "./src/main.py"], "totalFiles": 2}
COUNTS: dict[str, Any] = {
    "counts": [{"file": "./src/util/__init__.py", "count": 1}, {"file": "./src/main.py", "count": 1}],
    "totalFiles": 2,
    "totalMatches": 2,
}
GREP_LINES = f'src/util/__init__.py:2:    return "hello"\n{HERE}/src/main.py:4:    print("hello")'
HEADED = (
    f'Found 2 matches\n{HERE}/src/util/__init__.py:\n  Line 2:     return "hello"\n\n'
    f'{HERE}/src/main.py:\n  Line 4:     print("hello")\n'
)
WITH_DASHES = (
    'Found 2 matches for pattern "hello" in path ".":\n---\nFile: src/util/__init__.py\nL2:     return "hello"\n---\n'
    'File: src/main.py\nL4:     print("hello")\n---'
)
RIPGREP = 'src/util/__init__.py\n2:    return "hello"\n\nsrc/main.py\n4:    print("hello")\n'
BARRED = '# src/util/__init__.py\n  2 |     return "hello"\n----\n\n# src/main.py\n  4 |     print("hello")\n----'
WRAPPED = (
    f'<workspace_result workspace_path="{HERE}">\nFound 2 matching lines\n./src/util/__init__.py\n'
    '2:    return "hello"\n./src/main.py\n4:    print("hello")\n</workspace_result>'
)
LISTED = f"Found 2 files\n{HERE}/src/util/__init__.py\n{HERE}/src/main.py"
COUNTED = "src/util/__init__.py:1\nsrc/main.py:1\n\nFound 2 total occurrences across 2 files."


def grep(text: str, **args: Any) -> Any:
    """The typed result of a search for hello in the whole project."""
    return told(CLAUDE_CODE, text, grep_args={"pattern": "hello", "path": HERE, **args})


def found(text: str, **args: Any) -> Any:
    return grep(text, **args)["success"]["workspaceResults"][HERE]


@pytest.mark.parametrize(
    "text", [GREP_LINES, HEADED, WITH_DASHES, RIPGREP, BARRED, WRAPPED], ids=lambda text: str(text)[:30]
)
def test_lines_are_found_in_whatever_way_they_are_shown(text: str) -> None:
    """The result of Cursor's own client for the same project: files are named from its root."""
    assert grep(text, output_mode="content") == {
        "success": {
            "pattern": "hello",
            "path": HERE,
            "outputMode": "content",
            "workspaceResults": {HERE: {"content": CONTENT}},
        }
    }
    assert found(text) == {"content": CONTENT}
    assert found(text, output_mode="files_with_matches") == {"files": FILES}
    assert found(text, output_mode="count") == {"count": COUNTS}


def test_what_a_tool_for_many_queries_found_is_taken_out_of_its_answer() -> None:
    answer = json.dumps([{"query": "hello", "result": GREP_LINES, "success": True}])
    assert found(answer) == {"content": CONTENT}
    entries = json.dumps([{"query": HERE, "result": "a.txt\nsrc/", "success": True}])
    assert drawn(listed(entries)) == FLAT


def test_files_and_counts_are_told_as_such() -> None:
    assert found(LISTED, output_mode="files_with_matches") == {"files": FILES}
    assert found(COUNTED, output_mode="count") == {"count": COUNTS}


def test_a_mere_list_of_files_is_not_called_lines() -> None:
    """Where lines were wanted but only files came, it is said that these are files."""
    success = grep(LISTED, output_mode="content")["success"]
    assert success["outputMode"] == "files_with_matches"
    assert success["workspaceResults"][HERE] == {"files": FILES}


@pytest.mark.parametrize(
    "text",
    [
        "No matches found",
        "No files found",
        "No matches found\n\nFound 0 total occurrences across 0 files.",
        "Found 0 matches",
        "",
    ],
)
def test_nothing_found_is_an_empty_result_and_no_error(text: str) -> None:
    assert found(text, output_mode="content") == {"content": {}}
    assert found(text, output_mode="files_with_matches") == {"files": {}}
    assert found(text, output_mode="count") == {"count": {}}


CONTEXT = (
    'src/util/__init__.py-1-def helper():\nsrc/util/__init__.py:2:    return "hello"\n--\n'
    'src/main.py-3-def main():\nsrc/main.py:4:    print("hello")\nsrc/main.py-5-'
)
CONTEXT_HEADED = (
    'src/util/__init__.py\n1-def helper():\n2:    return "hello"\n\n'
    'src/main.py\n3-def main():\n4:    print("hello")\n5-'
)


@pytest.mark.parametrize("text", [CONTEXT, CONTEXT_HEADED], ids=["lines", "headings"])
def test_lines_beside_a_match_are_marked_and_separators_are_counted(text: str) -> None:
    """As Cursor's own client counts: five lines and the separator between the two files."""
    assert found(text, output_mode="content", context=1) == {
        "content": {
            "matches": [
                {
                    "file": "./src/util/__init__.py",
                    "matches": [
                        {"lineNumber": 1, "content": "def helper():", "isContextLine": True},
                        {"lineNumber": 2, "content": '    return "hello"'},
                    ],
                },
                {
                    "file": "./src/main.py",
                    "matches": [
                        {"lineNumber": 3, "content": "def main():", "isContextLine": True},
                        {"lineNumber": 4, "content": '    print("hello")'},
                        {"lineNumber": 5, "isContextLine": True},
                    ],
                },
            ],
            "totalLines": 6,
            "totalMatchedLines": 2,
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        "1:line 1\n2:line 2",
        "lines.txt:1:line 1\nlines.txt:2:line 2",
        f"{HERE}/lines.txt:1:line 1\n{HERE}/lines.txt:2:line 2",
    ],
)
def test_a_file_that_was_searched_by_itself_goes_by_its_own_name(text: str) -> None:
    args = {"pattern": "line", "path": f"{HERE}/lines.txt", "output_mode": "content"}
    came = told(CLAUDE_CODE, text, grep_args=args)["success"]
    assert came["path"] == f"{HERE}/lines.txt"
    [match] = came["workspaceResults"][HERE]["content"]["matches"]
    assert match["file"] == "lines.txt"
    assert [one["lineNumber"] for one in match["matches"]] == [1, 2]


def test_a_lone_number_is_the_count_of_the_file_that_was_searched() -> None:
    args = {"pattern": "line", "path": f"{HERE}/lines.txt", "output_mode": "count"}
    came = told(CLAUDE_CODE, "20\n\nFound 20 total occurrences across 1 file.", grep_args=args)["success"]
    count = came["workspaceResults"][HERE]["count"]
    assert count == {"counts": [{"file": "lines.txt", "count": 20}], "totalFiles": 1, "totalMatches": 20}


def test_a_search_that_was_cut_says_so() -> None:
    text = HEADED + "\n(Results are truncated. Consider using a more specific path or pattern.)"
    assert found(text)["content"]["clientTruncated"] is True
    paged = LISTED + "\n\n[Showing results with pagination = limit: 2]"
    assert found(paged, output_mode="files_with_matches")["files"]["clientTruncated"] is True


def test_more_than_anybody_reads_is_left_out() -> None:
    content = found("\n".join(f"a.py:{line}:x" for line in range(1, MAX_LINES + 10)))["content"]
    assert content["totalLines"] == MAX_LINES
    assert content["clientTruncated"] is True
    assert len(listed("\n".join(f"{name}.txt" for name in range(MAX_ENTRIES + 10)))["childrenFiles"]) == MAX_ENTRIES


def test_why_nothing_could_be_searched_is_an_error() -> None:
    """Cursor's own client says it in these words."""
    missing = told(
        CLAUDE_CODE,
        result("<tool_use_error>Path does not exist: nope</tool_use_error>", is_error=True),
        grep_args={"pattern": "x", "path": f"{HERE}/nope"},
    )
    assert missing == {"error": {"error": f"Path does not exist: {HERE}/nope"}}
    broken = grep("rg: regex parse error:\n    (?:()\n    ^\nerror: unclosed group\n")
    assert "regex parse error" in broken["error"]["error"]
    refused = told(
        PI, result("The user rejected permission to use this specific tool call."), grep_args={"pattern": "x"}
    )
    assert refused == {"error": {"error": "The user rejected permission to use this specific tool call."}}


def test_files_that_do_not_count_are_left_out_where_the_tool_could_not_be_told() -> None:
    simple = (tool("grep", {"pattern": STRING}),)
    args = {"pattern": "x", "glob": "**/*.{ts,tsx}", "output_mode": "files_with_matches"}
    came = told(simple, "a.ts\nb.tsx\nc.py", grep_args=args)["success"]["workspaceResults"][HERE]
    assert came["files"]["files"] == ["./a.ts", "./b.tsx"]
    told_so = told(PI, "a.ts\nc.py", grep_args=args)["success"]["workspaceResults"][HERE]
    assert told_so["files"]["files"] == ["./a.ts", "./c.py"]


@each(
    ("glob", "files"),
    [
        ("*.ts", ["./a.ts", "./src/b.spec.ts"]),
        ("*.{spec,test}.{ts,js}", ["./src/b.spec.ts", "./src/c.test.js"]),
        ("{src/*.js,*.py}", ["./src/c.test.js", "./d.py"]),
        ("*.{py,{js,rs}}", ["./src/c.test.js", "./d.py"]),
        ("!*.spec.ts", ["./a.ts", "./src/b.spec.ts", "./src/c.test.js", "./d.py"]),
        ("{a,b}" * 20, ["./a.ts", "./src/b.spec.ts", "./src/c.test.js", "./d.py"]),
        ("*.{ts", []),
    ],
)
def test_a_glob_leaves_out_only_files_that_it_surely_does_not_match(glob: str, files: list[str]) -> None:
    simple = (tool("grep", {"pattern": STRING}),)
    args = {"pattern": "x", "glob": glob, "output_mode": "files_with_matches"}
    came = told(simple, "a.ts\nsrc/b.spec.ts\nsrc/c.test.js\nd.py", grep_args=args)
    assert came["success"]["workspaceResults"][HERE]["files"].get("files", []) == files


def test_files_found_by_name_are_the_files_of_a_search() -> None:
    args = {"pattern": ".", "path": HERE, "output_mode": "files_with_matches", "glob": "**/*.py", "sort": "modified"}
    text = f"{HERE}/src/util/__init__.py\n{HERE}/src/main.py"
    assert told(CLAUDE_CODE, text, grep_args=args) == {
        "success": {
            "pattern": ".",
            "path": HERE,
            "outputMode": "files_with_matches",
            "workspaceResults": {HERE: {"files": FILES}},
        }
    }


def test_a_search_of_everything_is_keyed_by_the_project() -> None:
    success = told(CLAUDE_CODE, GREP_LINES, grep_args={"pattern": "hello"})["success"]
    assert "path" not in success
    assert list(success["workspaceResults"]) == [HERE]


def test_odd_lines_do_no_harm() -> None:
    lines = ["::", ":1:", "a:99999999999:x", "-1-", "1:", "\t\t:2:\u2028", "File: ", "# ", "C:\\a\\b.py:3:x"]
    for mode in ("content", "files_with_matches", "count"):
        came = found("\n".join(lines), output_mode=mode)
        assert list(came) == [{"content": "content", "files_with_matches": "files", "count": "count"}[mode]]


# ── Directories ──────────────────────────────────────────────────────────────────────────────────


def drawn(node: dict[str, Any]) -> dict[str, Any]:
    """A tree as names: directories hold what is in them, None if nobody looked."""
    inside = {one["absPath"].rsplit("/", 1)[-1] + "/": drawn(one) for one in node.get("childrenDirs", [])}
    files = {one["name"]: None for one in node.get("childrenFiles", [])}
    return {**inside, **files} if node.get("childrenWereProcessed") else {"?": None}


def listed(text: str, **args: Any) -> Any:
    return told(OPENCODE, text, ls_args={"path": HERE, **args})["success"]["directoryTreeRoot"]


def test_a_tree_is_what_cursors_own_client_tells() -> None:
    text = f"{HERE}/src/\n  main.py\n  util/\n    __init__.py\n"
    came = told(OPENCODE, text, ls_args={"path": f"{HERE}/src", "timeout_ms": 1000})
    assert came == {
        "success": {
            "directoryTreeRoot": {
                "absPath": f"{HERE}/src",
                "childrenDirs": [
                    {
                        "absPath": f"{HERE}/src/util",
                        "childrenFiles": [{"name": "__init__.py"}],
                        "childrenWereProcessed": True,
                    }
                ],
                "childrenFiles": [{"name": "main.py"}],
                "childrenWereProcessed": True,
            }
        }
    }


DEEP = {"src/": {"util/": {"__init__.py": None}, "main.py": None}, "a.txt": None}
FLAT = {"src/": {"?": None}, "a.txt": None}
LISTINGS: list[tuple[str, dict[str, Any]]] = [
    (
        f"- {HERE}/\n  - a.txt\n  - src/\n    - main.py\n    - util/\n      - __init__.py\n\nNOTE: beware",
        DEEP,
    ),
    (f"{HERE}/\n  a.txt\n  src/\n    main.py\n    util/\n      __init__.py", DEEP),
    (".\n├── a.txt\n└── src\n    ├── main.py\n    └── util\n        └── __init__.py\n\n2 directories, 3 files", DEEP),
    ("a.txt\nsrc/main.py\nsrc/util/__init__.py", DEEP),
    (f"{HERE}/a.txt\n{HERE}/src/main.py\n{HERE}/src/util/__init__.py", DEEP),
    (f"<path>{HERE}</path>\n<type>directory</type>\n<entries>\na.txt\nsrc/\n\n(2 entries)\n</entries>", FLAT),
    (f"Directory listing for {HERE}:\n[DIR] src\na.txt (12 bytes)", FLAT),
    ("[file] a.txt (1KB, 20 lines) - Jan 01\n[dir] src/ (3 items)", FLAT),
    ("a.txt\nsrc/\n\n(File list truncated. Use list_files on specific subdirectories.)", FLAT),
    (
        "total 8\ndrwxr-xr-x 2 u g 4096 Jan  1 00:00 .\ndrwxr-xr-x 2 u g 4096 Jan  1 00:00 src\n"
        "-rw-r--r-- 1 u g 15 Jan  1 2024 a.txt",
        FLAT,
    ),
    ('["a.txt","src/"]', FLAT),
    ('[{"name":"src","type":"directory"},{"name":"a.txt","type":"file"}]', FLAT),
    ('{"directories":["src"],"files":["a.txt"]}', FLAT),
    ("", {}),
    ("No files found", {}),
]


@each(("text", "expected"), LISTINGS, ids=lambda value: str(value)[:40])
def test_a_tree_is_made_of_any_listing(text: str, expected: dict[str, Any]) -> None:
    assert drawn(listed(text)) == expected


def test_names_are_sorted_without_case_and_those_to_ignore_are_left_out() -> None:
    text = "README.md\nlines.txt\nAGENTS.md\na.txt\nbin.dat\nsrc/\nsrc/main.py"
    came = listed(text, ignore=["src", "*.dat"])
    assert [one["name"] for one in came["childrenFiles"]] == ["a.txt", "AGENTS.md", "lines.txt", "README.md"]
    assert "childrenDirs" not in came


DIRECTORY_ERRORS = [
    ("ENOENT: no such file or directory, scandir '/x'", f"Path does not exist: {HERE}"),
    ("ENOTDIR: not a directory, scandir '/x'", f"Path is not a directory: {HERE}"),
    ("EACCES: permission denied", "EACCES: permission denied"),
]


@pytest.mark.parametrize(("text", "error"), DIRECTORY_ERRORS)
def test_why_a_directory_was_not_listed_is_told(text: str, error: str) -> None:
    came = told(CLINE, result(text, is_error=True), ls_args={"path": HERE})
    assert came == {"error": {"path": HERE, "error": error}}


def test_a_listing_the_user_refused_is_rejected() -> None:
    words = "The user denied this operation."
    assert told(CLINE, words, ls_args={"path": HERE}) == {"rejected": {"path": HERE, "reason": words}}


def test_a_tree_without_bottom_is_cut() -> None:
    root = tree("a/" * 5000 + "x\n" + "\n".join(" " * depth + "d/" for depth in range(2000)), HERE)
    depth = 0
    node = root
    while node.children_dirs:
        node, depth = node.children_dirs[0], depth + 1
    assert depth == MAX_DEPTH
    assert len(root.SerializeToString()) < 100_000


@pytest.mark.parametrize("text", ["│   " * 5000 + "x", "[1, {}, null, [[]]]", '{"entries": 7}', "{", "- " * 5000])
def test_odd_listings_do_no_harm(text: str) -> None:
    assert tree(text, HERE).children_were_processed
