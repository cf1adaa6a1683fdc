"""Runs the command `tieline` for `python -m tieline`."""

from tieline.cli.main import main

raise SystemExit(main())
