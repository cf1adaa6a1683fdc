"""Generated from proto/cursor by `make proto`; do not edit."""
