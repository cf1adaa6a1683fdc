"""Lets `python -m tieline` run the command `tieline`."""

from tieline.cli.main import main

raise SystemExit(main())
