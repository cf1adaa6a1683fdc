"""Renders a model's Markdown for the terminal. It is parsed as on the web page, so that both look alike.

Link targets are always shown. HTML is shown as text.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, Markdown, MarkdownElement, TableElement
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from tieline.cli.chat.layout import Indented
from tieline.cli.chat.safe_text import prose
from tieline.web.markdown import LANGUAGES, MAX_COLOURED, SAME_AS, parse

MAX_BLOCK = 32 << 10
"""Maximum number of characters that are laid out as Markdown at once. A larger block is shown as plain text."""
CODE_THEME = "ansi_dark"
"""A theme that uses the terminal's own colours, so that it suits light and dark terminals."""
STYLES = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.h5": "bold",
    "markdown.h6": "bold",
    "markdown.code": "cyan",
    "markdown.block_quote": "italic",
    "markdown.item.bullet": "dim",
    "markdown.item.number": "dim",
    "markdown.link": "underline",
    "markdown.link_url": "dim",
    "markdown.hr": "dim",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}


def render(text: str) -> RenderableType:
    """Return Markdown as a renderable, or as plain text if it is too large or too deeply nested."""
    safe = prose(text)
    tokens = parse(safe) if len(safe) <= MAX_BLOCK else None
    return Text(safe) if tokens is None else _TerminalMarkdown(tokens)


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = self.text.plain.rstrip()
        name = self.lexer_name.lower()
        is_coloured = name in LANGUAGES and len(code) <= MAX_COLOURED
        body: RenderableType = Text(code)
        if is_coloured:
            body = Syntax(code, SAME_AS.get(name, name), theme=CODE_THEME, word_wrap=True, background_color="default")
        yield Indented(body)


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
        for cell in self.header.row.cells if self.header is not None and self.header.row is not None else ():
            table.add_column(Text.assemble(cell.content, style="bold"), justify=cell.justify)
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _HorizontalRule(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="dim", characters="─")


class _TerminalMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "hr": _HorizontalRule,
        "table_open": _Table,
    }

    def __init__(self, tokens: Iterable[Token]) -> None:
        super().__init__("", code_theme=CODE_THEME, hyperlinks=False)
        self.parsed = [_simplified(token) for token in tokens]


def _simplified(token: Token) -> Token:
    token.content = prose(token.content)
    if token.children:
        token.children = [_safe(child) for child in _inline(token.children)]
    return token


def _safe(token: Token) -> Token:
    """Return the token with safe text. Markdown can contain any character as an entity, such as `&#x202e;`."""
    token.content = prose(token.content)
    if "href" in token.attrs:
        token.attrs["href"] = prose(str(token.attrs["href"]))
    return token


def _inline(tokens: list[Token]) -> Iterator[Token]:
    """Yield the tokens of a paragraph. Images, and links whose text is their target, become plain text."""
    plain_links = 0
    for at, token in enumerate(tokens):
        if token.type == "image":
            target = token.attrs.get("src", "")
            yield Token("text", "", 0, content=f"{token.content or 'image'} ({target})")
        elif token.type == "link_open" and _is_bare(tokens, at):
            plain_links += 1
        elif token.type == "link_close" and plain_links:
            plain_links -= 1
        else:
            yield token


def _is_bare(tokens: list[Token], at: int) -> bool:
    """Return whether the text of the link that begins at `at` is its target."""
    following = tokens[at + 1 : at + 3]
    return (
        len(following) == 2
        and following[0].type == "text"
        and following[1].type == "link_close"
        and following[0].content == tokens[at].attrs.get("href")
    )
