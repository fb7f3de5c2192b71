"""tracekit: what limits each kernel of an LLM inference run, how it is known, and what could be won."""
