"""Two-way HTTP/2 streams to upstreams, on top of the h2 library."""
