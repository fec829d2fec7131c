"""Next items: what comes next in a session of things that somebody chose, played or read."""
