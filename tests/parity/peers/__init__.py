"""Libraries nobody here wrote, as oracles: one runner each, in an environment of their own (scripts/peers)."""
