"""Inspection of a trained model on one text, as a document: attention, alternatives, the beam, measures of heads."""
