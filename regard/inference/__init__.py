"""Trained models at work: from text to text."""
