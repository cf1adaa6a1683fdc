"""Protected paths: files that control what the gateway, a shell, an editor or a coding agent does without asking.

A change to such a file can cause commands to run later, so no grant covers it: every change needs permission. Only a
rule in the user's configuration that names the file or its folder can allow it.

Names are compared as on the most tolerant file systems, which ignore case, compatibility forms, ignorable code points,
and dots or blanks at the end.
"""

import unicodedata

from tieline.tools.invisible_text import is_invisible

_FOLDERS = {
    "version control": (".git", ".hg", ".svn", ".jj", ".husky", ".githooks"),
    "an editor": (".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".vim", ".nvim", ".emacs.d"),
    "a coding agent": (
        ".agents",
        ".aider",
        ".amp",
        ".augment",
        ".claude",
        ".cline",
        ".clinerules",
        ".codex",
        ".continue",
        ".copilot",
        ".cursor",
        ".factory",
        ".gemini",
        ".goose",
        ".grok",
        ".hermes",
        ".junie",
        ".kilo",
        ".kilocode",
        ".kimi",
        ".kiro",
        ".opencode",
        ".qoder",
        ".qwen",
        ".roo",
        ".trae",
        ".vibe",
        ".windsurf",
    ),
    "your programs": (".config", ".local", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".direnv"),
}
_FILES = {
    "the gateway": ("tieline.toml",),
    "version control": (".gitconfig", ".gitmodules", ".hgrc", ".pre-commit-config.yaml", "lefthook.yml"),
    "an editor": (".vimrc", ".nvimrc", ".nvim.lua", ".exrc", ".gvimrc", ".emacs", ".dir-locals.el"),
    "a coding agent": (
        ".mcp.json",
        "mcp.json",
        "agents.md",
        "claude.md",
        "claude.local.md",
        "gemini.md",
        "qwen.md",
        "copilot-instructions.md",
        "opencode.json",
        "opencode.jsonc",
        ".aider.conf.yml",
        ".cursorrules",
        ".goosehints",
        ".windsurfrules",
    ),
    "a shell": (
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".login",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
        ".inputrc",
        ".envrc",
        ".xprofile",
        ".xinitrc",
        ".xsession",
        ".xsessionrc",
        ".pam_environment",
    ),
    "your programs": (
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".netrc",
        ".pypirc",
        ".wgetrc",
        ".curlrc",
    ),
}
_OWNER_OF_FOLDER = {name: owner for owner, names in _FOLDERS.items() for name in names}
_OWNER_OF_FILE = {name: owner for owner, names in _FILES.items() for name in names} | _OWNER_OF_FOLDER
_WORKSPACE_FILE = ".code-workspace"


def controlled_program(path: str) -> str | None:
    """Return the program that a path controls ("an editor", "a shell"), or None if the path is not protected."""
    *folders, name = (_normalized(part) for part in path.split("/"))
    owners = (*(_OWNER_OF_FOLDER.get(folder) for folder in folders), _OWNER_OF_FILE.get(name))
    found = next((owner for owner in owners if owner is not None), None)
    return "an editor" if found is None and name.endswith(_WORKSPACE_FILE) else found


def protection_warning(path: str) -> str:
    """Return a warning for the person who decides about a change to a path; empty if the path is not protected."""
    owner = controlled_program(path)
    return "" if owner is None else f"`{path}` is protected: it controls the behaviour of {owner}."


def _normalized(part: str) -> str:
    if part.isascii() and part.isprintable():
        return part.casefold().rstrip(". ")
    seen = "".join(character for character in part if not is_invisible(character))
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).rstrip(". ")
