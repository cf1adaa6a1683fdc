"""Builds the objects that measure and limit usage: the accounts of keys, the ledger and the stored keys.

The database is not opened before it is needed. A gateway without a key of its own has neither named keys nor limits.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tieline.app.build.prices import price_table
from tieline.app.build.storage import FILE_NAME, Storage
from tieline.app.config import Config
from tieline.app.folders import state_folder
from tieline.app.keys.stored import StoredKeys
from tieline.app.usage.ledger import UsageLedger
from tieline.core.usage.accounts import Accounts
from tieline.core.usage.meter import Meter
from tieline.frontends.keys import NamedKey
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

FOLDER = "usage"
START_TIMEOUT = 10.0
"""Maximum number of seconds that the gateway waits at start-up for the stored keys and the usage so far."""


@dataclass(frozen=True, slots=True)
class UsageParts:
    """The objects that measure and limit usage."""

    accounts: Accounts
    meter: Meter
    ledger: UsageLedger
    stored: StoredKeys | None
    """The stored keys; None if the gateway has no key of its own."""
    must_load: bool
    """Whether the database has to be read before the first request."""

    async def start(self) -> None:
        """Read the stored keys and their usage. If this fails or takes too long, log a warning and continue."""
        if not self.must_load:
            return
        warning = "the stored keys could not be read at start-up (%s); the gateway will try again when one is used"
        try:
            async with asyncio.timeout(START_TIMEOUT):
                if self.stored is not None:
                    await self.stored.refresh()
                warning = "the usage so far could not be read at start-up (%s); the gateway will try again soon"
                if self.meter.is_active:
                    await self.ledger.sync()
        except TimeoutError:
            log.warning(warning, f"no answer within {START_TIMEOUT:g} seconds")
        except GatewayError:  # its message is for clients
            log.warning(warning, "the database cannot be used")
        except Exception as error:  # noqa: BLE001 - the gateway must start without its database
            log.warning(warning, error)
        if self.meter.is_active:
            self.ledger.start()

    def metric_lines(self) -> Iterator[str]:
        """Yield the metrics of the ledger, if it is in use."""
        if self.meter.is_active:
            yield from self.ledger.metric_lines()

    async def aclose(self) -> None:
        """Stop checking keys for changes, and insert the remaining usage."""
        if self.stored is not None:
            self.stored.close()
        await self.ledger.aclose()


def build_usage(
    config: Config,
    env: Mapping[str, str],
    storage: Storage,
    tasks: Tasks,
    own_keys: Sequence[str],
    named: Sequence[NamedKey],
    upstreams: Collection[str],
) -> UsageParts:
    """Build the objects that measure and limit usage.

    If there are no named or stored keys, usage is measured only if `usage.enabled` is set.
    """
    accounts = Accounts(time.monotonic, time.time)
    folder = state_folder(env)
    ledger = UsageLedger(
        storage.database.now,
        None if folder is None else folder / FOLDER,
        tasks,
        accounts,
        now=time.time,
        keep_days=config.usage.keep_days,
    )
    prices = price_table(config.prices, upstreams)
    meter = Meter(accounts, prices, ledger.write, now=time.time)
    meter.is_active = config.usage.enabled or bool(named)
    stored = None
    if own_keys:
        configured = frozenset(key.name for key in named)
        stored = StoredKeys(
            storage.database.now, tasks, accounts, clock=time.monotonic, now=time.time, configured=configured
        )
        stored.on_change.append(lambda: _activate(meter, ledger, stored))
    has_file = folder is not None and (folder / FILE_NAME).exists()
    return UsageParts(accounts, meter, ledger, stored, storage.is_shared or has_file)


def _activate(meter: Meter, ledger: UsageLedger, stored: StoredKeys) -> None:
    """Record usage as soon as there are stored keys."""
    if stored.has_keys:
        meter.is_active = True
        ledger.sync_soon()
        ledger.start()
