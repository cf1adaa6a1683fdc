"""Finds, loads and checks the configuration, without asking the user anything and without recording anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tieline.app.build.application import App, build
from tieline.app.config import Config, ConfigError
from tieline.app.config_file import ConfigFile, load_config
from tieline.app.doctor.findings import Check, Finding, known, ok, problem, warning
from tieline.app.folders import user_folder
from tieline.app.trust import ConfigFinder, TrustStore, Untrusted, is_same_folder, place, read_local
from tieline.model.errors import GatewayError

AREA = "Configuration"


class LoadedConfig(NamedTuple):
    """The configuration in use. If it cannot be used, `app` is None and `config` holds the defaults."""

    config: Config
    source: Path | None
    app: App | None
    checks: list[Check]


def load_checked(explicit: Path | None, here: Path, env: Mapping[str, str]) -> LoadedConfig:
    """Load the file that `tieline serve` would use in the folder `here`. `explicit` is a file named by the user."""
    checks: list[Check] = []
    try:
        source = _find(explicit, here, env, checks)
        where = "no file: defaults and environment variables" if source is None else str(source.path.absolute())
        config = load_config(source, env)
        app = build(config, env, source=None if source is None else source.path)
    except ConfigError as error:
        fix = "Correct it, and run `tieline check-config`. The remaining checks use the default configuration."
        checks.append(known(AREA, "file", problem(str(error), fix)))
        return LoadedConfig(load_config(None, env), None, None, checks)
    checks.append(known(AREA, "file", ok(where)))
    checks += [known(AREA, "server", warning(text.removeprefix("Warning: "))) for text in app.warnings]
    checks += _name_checks(config, app)
    return LoadedConfig(config, None if source is None else source.path, app, checks)


def _find(explicit: Path | None, here: Path, env: Mapping[str, str], checks: list[Check]) -> ConfigFile | None:
    own = user_folder(env)
    finder = ConfigFinder(own, agree=_refuse, warn=lambda text: checks.append(known(AREA, "file", warning(text))))
    local = None if explicit is not None or is_same_folder(here, own) else read_local(place(here), _quiet)
    if local is None or TrustStore(own).standing(local) == "trusted":
        return finder.find(explicit, here)
    changed = TrustStore(own).standing(local) == "changed"
    why = "has changed since you trusted it" if changed else "is not trusted"
    fix = "Run `tieline trust` to see its settings and to trust it, or remove it."
    checks.append(known(AREA, "local file", warning(f"{local.path} {why}, so it is not used", fix)))
    return finder.find(None, own)


def _refuse(_: Untrusted) -> bool:
    return False


def _quiet(_: str) -> None:
    """Ignore a warning, because the finder repeats it."""


def _name_checks(config: Config, app: App) -> list[Check]:
    """Return a problem for each alias or default model whose target does not exist."""
    names = {f"aliases.{name}": target for name, target in config.aliases.items()}
    if config.default_model is not None:
        names["default_model"] = config.default_model
    found: list[Check] = []
    for setting, target in names.items():
        finding = _dangling(setting, target, app)
        if finding is not None:
            found.append(known(AREA, setting, finding))
    return found


def _dangling(setting: str, target: str, app: App) -> Finding | None:
    try:
        app.gateway.models.resolve(target.replace("*", "x"))
    except GatewayError as error:
        return problem(f"{target}: {error.message}", f"Correct `{setting}`; `tieline models` lists all models.")
    return None
