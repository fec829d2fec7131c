"""Answers: the outputs of networks, from targets and losses to written predictions."""
