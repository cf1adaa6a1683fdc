"""Protected paths: files that decide what the gateway, a shell, an editor or an agent does without asking.

Whoever can write one of these can run commands later, so a grant that was given once and remembered never covers them:
every write asks. Only a rule of the user's own configuration that names the file or its folder can allow it.

Names are compared the way the most forgiving file systems do: without regard to case, compatibility forms, ignorable
code points, and dots or blanks at the end.
"""

import unicodedata

from tieline.tools.invisible_text import is_unseen

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
    "programs of yours": (".config", ".local", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".direnv"),
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
    "programs of yours": (
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


def protection(path: str) -> str | None:
    """Return whose behaviour a path controls ("an editor", "a shell"), or None if it is an ordinary path."""
    *folders, name = (_plain(part) for part in path.split("/"))
    owners = (*(_OWNER_OF_FOLDER.get(folder) for folder in folders), _OWNER_OF_FILE.get(name))
    found = next((owner for owner in owners if owner is not None), None)
    return "an editor" if found is None and name.endswith(_WORKSPACE_FILE) else found


def warning(path: str) -> str:
    """Return one sentence for a person if a path is protected; otherwise an empty string."""
    owner = protection(path)
    return "" if owner is None else f"`{path}` is protected: it controls what {owner} does."


def _plain(part: str) -> str:
    seen = "".join(character for character in part if not is_unseen(character))
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).rstrip(". ")
