"""Documents, markup, terms and word alignment around translated sentences."""
