"""Renders a model's Markdown as safe HTML, without scripts, remote resources or HTML tags from the text.

Raw HTML is shown as text. Links to web and mail addresses open in a new window without access to the page; other link
targets (files, `javascript:`) are shown but cannot be followed. Images become links, because loading an image would
reveal the reader's address to a server. Highlighted code has CSS classes instead of styles. Text that is too large to
parse quickly is shown as plain text.
"""

import re
from collections.abc import MutableMapping, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

VERSION = b"2"
"""The version of the rendering. Change it whenever the HTML changes, so that saved HTML is rendered again."""

MAX_TEXT = 256 * 1024
"""Maximum length, in characters, of a text that is parsed. A longer text is shown as plain text."""
MAX_PROSE = 16 * 1024
"""Maximum length, in characters, of a paragraph whose inline markup is parsed."""
MAX_MARKS = 200
"""Maximum number of equal markup characters in a paragraph that is parsed. Parsing them takes quadratic time."""
MAX_NESTED = 20
"""Maximum nesting depth of blocks. A text with deeper blocks, which the parser would drop, is shown as plain text."""
MAX_COLOURED = 64 * 1024
"""Maximum length, in characters, of a code block that is highlighted."""

LANGUAGES = frozenset(
    """
    ada asm awk bash bat batch c c# c++ clj clojure cmake coffeescript console cpp cs csharp css csv cuda cypher d dart
    diff docker dockerfile elixir elm erlang f# fish fortran fsharp gherkin git glsl go golang gradle graphql groovy h
    haskell hcl hs html http ini java javascript jinja jl js json json5 jsonc jsonl jsx julia kotlin kt latex less lisp
    lua make makefile markdown matlab md mermaid nasm nginx nim nix objc objective-c ocaml octave patch perl php pl
    plaintext postgres postgresql powershell properties proto protobuf ps1 puppet py pycon python python3 pytb r racket
    rb rs rst ruby rust sass scala scheme scss sh shell shell-session sql sqlite swift systemverilog tcl terraform tex
    toml ts tsx typescript udiff v vb verilog vhdl vim vue wasm xml yaml yml zig zsh
    """.split()  # noqa: SIM905 - a list would have one line per language
)
"""Languages whose code is highlighted. Their lexers are widely used and well tested."""
SAME_AS = {"jsonc": "json", "jsonl": "json", "shell": "bash", "zsh": "bash", "tsx": "typescript", "vue": "html"}

_LINK = re.compile(r"(?:https?://[^/\s]|mailto:[^\s])", re.IGNORECASE)
_SCHEME = re.compile(r"[^/?#]*:")
_BARE_LINK = re.compile(r"https?://[^\s<>\"'`|\\^{}\x00-\x20]+", re.IGNORECASE)
_TRAILING = ".,;:!?*_~"
_MARKS = "[*_`~<&"
_FORMATTER: "HtmlFormatter[str]" = HtmlFormatter(nowrap=True)
Env = MutableMapping[str, Any]
_PATHS = "paths"
"""The key of a stack in `Env`. Its entries say for each open link whether it is shown as a path."""


def render(text: str) -> str:
    """Return a Markdown text as safe HTML."""
    tokens = parse(text)
    if tokens is None:
        return plain(text)
    return str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {_PATHS: []}))


def parse(text: str) -> list[Token] | None:
    """Parse a Markdown text. Return None if it is too large or too deeply nested, and must be shown as plain text."""
    if len(text) > MAX_TEXT:
        return None
    tokens = _MARKDOWN.parse(text, {})
    return None if any(token.level >= MAX_NESTED - 1 for token in tokens) else tokens


def plain(text: str) -> str:
    """Return a text as preformatted HTML, without parsing its Markdown."""
    return f'<pre class="plain">{escape(text)}</pre>\n'


def coloured(code: str, language: str) -> str:
    """Return code as HTML, with a CSS class for each kind of token if the language is known."""
    lexer = _lexer(language) if len(code) <= MAX_COLOURED else None
    return escape(code) if lexer is None else highlight(code, lexer, _FORMATTER)


def _lexer(language: str) -> Lexer | None:
    name = language.lower()
    if name not in LANGUAGES:
        return None
    try:
        return get_lexer_by_name(SAME_AS.get(name, name), stripnl=False)
    except ClassNotFound:
        return None


def _inline(state: StateCore) -> None:
    """Parse the inline markup of each paragraph, unless that would take too long."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        if token.children is None:
            token.children = []
        text = token.content
        if len(text) > MAX_PROSE or any(text.count(mark) > MAX_MARKS for mark in _MARKS):
            token.children.append(_text(text))
        else:
            state.md.inline.parse(text, state.md, state.env, token.children)


# ── Links ────────────────────────────────────────────────────────────────────────────────────────


def _is_shown_as_link(url: str) -> bool:
    """Return whether Markdown with this link target is parsed as a link. This includes links to files."""
    return _LINK.match(url) is not None or _SCHEME.match(url.strip()) is None


def _linkify(state: StateCore) -> None:
    """Turn web addresses in plain text into links."""
    for token in state.tokens:
        if token.type == "inline" and token.children and "://" in token.content:
            token.children = _with_links(token.children)


def _with_links(children: Sequence[Token]) -> list[Token]:
    out: list[Token] = []
    depth = 0
    for child in children:
        depth += child.nesting if child.type.startswith("link_") else 0
        if child.type == "text" and not depth and "://" in child.content:
            out += _split(child)
        else:
            out.append(child)
    return out


def _split(token: Token) -> list[Token]:
    out: list[Token] = []
    end = 0
    for found in _BARE_LINK.finditer(token.content):
        url = _trimmed(found[0])
        if not _LINK.match(url):
            continue
        out += [_text(token.content[end : found.start()]), *_link(url)]
        end = found.start() + len(url)
    return [one for one in (*out, _text(token.content[end:])) if one.type != "text" or one.content]


def _trimmed(url: str) -> str:
    """Return a web address without the punctuation at its end, which belongs to the sentence around it."""
    url = url.rstrip(_TRAILING)
    while url.endswith((")", "]")) and url.count(url[-1]) > url.count("(" if url[-1] == ")" else "["):
        url = url[:-1].rstrip(_TRAILING)
    return url


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(url: str) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": url}), _text(url), Token("link_close", "a", -1)]


# ── Output ───────────────────────────────────────────────────────────────────────────────────────


class _Renderer(RendererHTML):
    """Renders links, images, code and table cells safely. Other elements are rendered by the library."""

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:  # noqa: ARG002 - the library's signature
        url = str(tokens[idx].attrGet("href") or "")
        is_link = _LINK.match(url) is not None
        env[_PATHS].append(not is_link)
        if is_link:
            return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer nofollow">'
        return f'<span class="path" title="{escape(url)}">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:  # noqa: ARG002 - the library's signature
        return "</span>" if env[_PATHS] and env[_PATHS].pop() else "</a>"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        token = tokens[idx]
        url = str(token.attrGet("src") or "")
        words = escape(self.renderInlineAsText(token.children or [], options, env) or url)
        if not _LINK.match(url) or env[_PATHS]:
            return f'<span class="image" title="{escape(url[:200])}">{words}</span>'
        return f'<a class="image" href="{escape(url)}" target="_blank" rel="noopener noreferrer nofollow">{words}</a>'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:  # noqa: ARG002 - the library's signature
        token = tokens[idx]
        language = (token.info.split() or [""])[0][:40]
        named = f' data-language="{escape(language)}"' if language else ""
        return f'<pre class="hl"{named}><code>{coloured(token.content, language)}</code></pre>\n'

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:  # noqa: ARG002 - the library's signature
        return f'<pre class="hl"><code>{escape(tokens[idx].content)}</code></pre>\n'

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:  # noqa: ARG002 - the library's signature
        return _cell("th", tokens[idx])

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:  # noqa: ARG002 - the library's signature
        return _cell("td", tokens[idx])


def _cell(tag: str, token: Token) -> str:
    """Return the opening tag of a table cell. Its alignment is a class, because the CSP forbids style attributes."""
    style = str(token.attrGet("style") or "")
    side = style.removeprefix("text-align:")
    return f'<{tag} class="{side}">' if side in ("left", "center", "right") else f"<{tag}>"


def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED}, renderer_cls=_Renderer)
    markdown.enable(["table", "strikethrough"])
    markdown.disable(["html_block", "html_inline"])
    markdown.core.ruler.at("inline", _inline)
    markdown.core.ruler.push("addresses", _linkify)
    markdown.validateLink = _is_shown_as_link  # type: ignore[method-assign] # the documented way to set it
    return markdown


_MARKDOWN = _markdown()
