"""A trained model in the formats of others, each with a report of what was compared."""
