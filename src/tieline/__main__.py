"""Makes `python -m tieline` the same as the command `tieline`."""

from tieline.cli.main import main

raise SystemExit(main())
