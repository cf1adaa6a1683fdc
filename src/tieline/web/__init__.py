"""Who watches: the page at `/`, its small API, and one stream of everything that happens."""
