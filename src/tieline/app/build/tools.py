"""The gateway's own tools, put together: where they act, what they may do, what commands see of ours."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from tieline.app.audit import Audit, Remembered
from tieline.app.build.upstreams import State, state_folder, user_folder
from tieline.app.config import ConfigError, ToolSettings
from tieline.model.rules import Rule
from tieline.tools.errors import ToolFailed
from tieline.tools.globs import escaped
from tieline.tools.guarded_tools import Keeper
from tieline.tools.policy import Policy, retired
from tieline.tools.search import find_ripgrep
from tieline.tools.toolbox import Toolbox
from tieline.tools.workspace import Workspace

log = logging.getLogger("tieline.tools")

_WHO = "; for the page and clients with `tools = true`"


def tool_keeper(settings: ToolSettings, env: Mapping[str, str], audit: Audit) -> tuple[Keeper, State] | None:
    """The gateway's own tools and what they may do, if they are switched on."""
    if not settings.enabled:
        return None
    try:
        workspace = Workspace(Path(settings.workspace or ".").expanduser())
    except ToolFailed as error:
        raise ConfigError(f"{error}; `--workspace` (or `tools.workspace`) names the folder that tools act in") from None
    kept = Remembered(user_folder(env), workspace.root)
    for rule in kept.load():
        if reason := retired(rule):
            log.warning("what was always allowed now asks again: %s (%s); `tieline inbox rules` lists it", rule, reason)
    policy = Policy(
        workspace.locate,
        rules=(*own_rules(workspace.root, env), *settings.rules),
        remembered=kept,
        yolo=settings.yolo,
    )
    environment, interpreter = shell_of(settings, env)
    box = Toolbox(
        workspace,
        environment=environment,
        interpreter=interpreter,
        ripgrep=find_ripgrep(env.get("PATH", "")),
        hides=policy.hides,
    )
    return Keeper(box, policy, note=audit.ruled), _tool_state(settings, policy, workspace.root)


def shell_of(settings: ToolSettings, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, str]]:
    """What commands get to see of our environment, and what runs a command line."""
    seen = {name: env[name] for name in settings.environment if name in env}
    return seen, (_shell(settings.shell, env), "-c")


def own_rules(root: str, env: Mapping[str, str]) -> list[Rule]:
    """Our logins and what was allowed are none of a model's business, even where they lie inside the workspace."""
    folders = [folder.resolve() for folder in (user_folder(env), state_folder(env)) if folder is not None]
    inside = [folder.relative_to(root).as_posix() for folder in folders if folder.is_relative_to(root)]
    return [Rule(decision="deny", path="**" if folder == "." else f"{escaped(folder)}/") for folder in inside]


def _shell(shell: str, env: Mapping[str, str]) -> str:
    found = shutil.which(shell, path=env.get("PATH", ""))
    if found is None:
        raise ConfigError(f"`tools.shell` is {shell}, which is no program that can be run")
    return found


def _tool_state(settings: ToolSettings, policy: Policy, root: str) -> State:
    if settings.yolo:
        return State("tools", True, f"{root}: EVERYTHING is allowed without asking (yolo){_WHO}")
    rules = f"; {len(settings.rules)} rules of yours" if settings.rules else ""
    always = f"; {len(policy.remembered)} things always allowed (tieline inbox rules)" if policy.remembered else ""
    asks = "reading is allowed, the rest asks (tieline inbox watch)"
    return State("tools", True, f"{root}: {asks}{rules}{always}{_WHO}")
