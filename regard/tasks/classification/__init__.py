"""Classification: one or several texts to a label."""
