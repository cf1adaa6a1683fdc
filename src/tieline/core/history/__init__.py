"""Make histories acceptable to every upstream: pair tool results, restore thinking, estimate tokens."""
