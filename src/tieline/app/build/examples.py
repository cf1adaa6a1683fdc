"""The examples that an empty web page offers: conversations with the demo model in a folder of sample files.

Their tools work only in this folder, and can run only the command of the example: on a gateway whose own tools are
disabled, the page must not become a way to run other commands. Writing a file and running the command always need the
user's permission, even if the gateway was started with --yolo.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tieline.app.audit import AuditLog
from tieline.app.folders import state_folder, user_folder
from tieline.model.errors import GatewayError
from tieline.model.ports import Toolbox
from tieline.model.rules import Rule
from tieline.net.private_files import write_private
from tieline.tools.errors import ToolFailed
from tieline.tools.guarded_tools import GuardedTools
from tieline.tools.policy import Policy
from tieline.tools.search import find_ripgrep
from tieline.tools.shell import RUN_TERMINAL
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace
from tieline.web.gateway_info import Example

MODEL = "demo/scripted"
COMMAND = "sort -t, -k2 -nr sales.csv"
RULES = (
    Rule(decision="ask", tool=RUN_TERMINAL.name, command=COMMAND, exact=True),
    Rule(decision="deny", tool=RUN_TERMINAL.name),
)
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ")
"""The variables that the example command receives, in addition to HOME, which is set to the examples' folder."""

SAMPLES = {
    "README.md": "# Tea shop\n\nA small shop that sells tea. `sales.csv` has the boxes sold last week.\n\n"
    "These are sample files for the examples of Tieline. You can change or delete them.\n",
    "sales.csv": "tea,boxes\nAssam,41\nDarjeeling,28\nEarl Grey,35\nOolong,12\nSencha,19\n",
}
EXAMPLES = (
    Example(
        id="read",
        title="Read a file",
        about="The model calls a tool and reports the result.",
        text="Read README.md",
        model=MODEL,
    ),
    Example(
        id="run",
        title="Run a command",
        about="You decide whether the command runs.",
        text=f"Run: {COMMAND}",
        model=MODEL,
    ),
    Example(
        id="plan",
        title="Make a plan",
        about="Nothing is done before you approve it.",
        text='Make a plan: read sales.csv, then write "Best seller: Assam" to summary.txt, then read summary.txt',
        model=MODEL,
        mode="plan",
    ),
    Example(
        id="question",
        title="Ask me a question",
        about="The model waits for your answer.",
        text="Ask me: Which tea should we order more of? Assam, Darjeeling or Sencha",
        model=MODEL,
    ),
)


class ExampleTools:
    """The tools for the examples. Their folder is created when the first example is opened."""

    def __init__(self, env: Mapping[str, str], audit: AuditLog) -> None:
        self.folder = (state_folder(env) or user_folder(env)) / "examples"
        self._env = env
        self._audit = audit
        self._opening = asyncio.Lock()
        self._tools: GuardedTools | None = None

    async def open(self, model: str) -> Toolbox | None:
        """Return the tools, or None if `model` is not the demo model. Restore missing sample files.

        Raise GatewayError if the folder cannot be created.
        """
        if model != MODEL:
            return None
        async with self._opening:
            try:
                workspace = await asyncio.to_thread(_create, self.folder)
                if self._tools is None:
                    self._tools = self._build(workspace)
            except (OSError, ToolFailed) as error:
                message = f"The folder of the examples, {self.folder}, cannot be used: {error}"
                raise GatewayError("internal", message) from error
        return self._tools

    def _build(self, workspace: Workspace) -> GuardedTools:
        environment = {name: self._env[name] for name in ENVIRONMENT if name in self._env}
        toolbox = WorkspaceToolbox(
            workspace,
            environment={**environment, "HOME": workspace.root},
            ripgrep=find_ripgrep(self._env.get("PATH", "")),
        )
        # No grants are saved here: the answer "always" applies until the gateway stops.
        return GuardedTools(toolbox, Policy(workspace.locate, rules=RULES), note=self._audit.write_ruling)


def _create(folder: Path) -> Workspace:
    """Create the folder and its sample files, if they do not exist, and return it as a workspace."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in SAMPLES.items():
        path = folder / name
        if not path.exists():
            write_private(path, text.encode())
    return Workspace(folder)
