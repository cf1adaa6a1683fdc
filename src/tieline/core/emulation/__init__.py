"""Request options that the gateway enforces for upstreams that do not support them."""
