"""Builds the gateway's own tools, their workspace and policy, and the environment for the commands that they run."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tieline.app.audit import AuditLog
from tieline.app.build.status import TOOLS, BackendStatus
from tieline.app.build.storage import Storage
from tieline.app.config import ConfigError, ToolSettings
from tieline.app.folders import state_folder, user_folder
from tieline.app.saved_grants import SavedGrants
from tieline.app.shared_grants import SharedGrants
from tieline.model.rules import Rule
from tieline.tools.errors import ToolFailed
from tieline.tools.globs import escaped
from tieline.tools.guarded_tools import GuardedTools
from tieline.tools.policy import Grants, Policy, warn_of_retired
from tieline.tools.search import find_ripgrep
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import CAN_CONFINE, Workspace

_RECIPIENTS = "; for the page and clients with `tools = true`"


def build_tools(
    settings: ToolSettings, env: Mapping[str, str], audit: AuditLog, storage: Storage
) -> tuple[GuardedTools, BackendStatus]:
    """Build the tools and their policy, and return them with a status for the user.

    Raise ConfigError if the workspace or the shell cannot be used.
    """
    if not CAN_CONFINE:
        raise ConfigError(
            "the gateway's own tools, and the files and terminals of [acp], are not available: this system cannot "
            "confine them to a folder. Remove --tools, `tools.enabled`, `acp.files` and `acp.terminals`"
        )
    try:
        workspace = Workspace(Path(settings.workspace or ".").expanduser())
    except ToolFailed as error:
        raise ConfigError(f"{error}; set the folder for tools with `--workspace` or `tools.workspace`") from None
    grants = _grants(workspace.root, env, storage)
    policy = Policy(
        workspace.locate,
        rules=(*protecting_rules(workspace.root, env), *settings.rules),
        remembered=grants,
        autonomy="all" if settings.yolo else "ask",
    )
    environment, interpreter = command_environment(settings, env)
    toolbox = WorkspaceToolbox(
        workspace,
        environment=environment,
        interpreter=interpreter,
        ripgrep=find_ripgrep(env.get("PATH", "")),
        hides=policy.hides,
    )
    return GuardedTools(toolbox, policy, note=audit.write_ruling), _status(settings, policy, workspace.root)


def _grants(root: str, env: Mapping[str, str], storage: Storage) -> Grants:
    """Return the saved permissions for a workspace, which replicas share if they share a database."""
    if storage.is_shared:
        shared = SharedGrants(storage.database.now(), root)
        storage.when_started(shared.start)
        storage.on_close(shared.aclose)
        return shared
    grants = SavedGrants(user_folder(env), root)
    warn_of_retired(grants.load())
    return grants


def command_environment(settings: ToolSettings, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, str]]:
    """Return the environment variables for commands, and the shell with the option that makes it run a command line."""
    variables = {name: env[name] for name in settings.environment if name in env}
    return variables, (_shell(settings.shell, env), "-c")


def protecting_rules(root: str, env: Mapping[str, str]) -> list[Rule]:
    """Return rules that deny access to the gateway's own logins, settings and state, if they are inside `root`."""
    folders = [folder.resolve() for folder in (user_folder(env), state_folder(env)) if folder is not None]
    inside = [folder.relative_to(root).as_posix() for folder in folders if folder.is_relative_to(root)]
    return [Rule(decision="deny", path="**" if folder == "." else f"{escaped(folder)}/") for folder in inside]


def _shell(shell: str, env: Mapping[str, str]) -> str:
    found = shutil.which(shell, path=env.get("PATH", ""))
    if found is None:
        raise ConfigError(f"`tools.shell` is {shell}, but there is no such program")
    return found


def _status(settings: ToolSettings, policy: Policy, root: str) -> BackendStatus:
    if settings.yolo:
        return BackendStatus(TOOLS, True, f"{root}: EVERYTHING is allowed without asking (yolo){_RECIPIENTS}")
    rules = f"; {len(settings.rules)} configured rules" if settings.rules else ""
    saved = f"; {len(policy.remembered)} saved permissions (tieline inbox rules)" if policy.remembered else ""
    asks = "reading is allowed, everything else asks (tieline inbox watch)"
    return BackendStatus(TOOLS, True, f"{root}: {asks}{rules}{saved}{_RECIPIENTS}")
