"""Request options that an upstream does not support, enforced by the gateway."""
