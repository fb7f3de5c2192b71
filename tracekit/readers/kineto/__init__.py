"""Kineto Chrome-trace JSON: `reader` reads it; the rest decodes it, in one process or two, without pandas."""
