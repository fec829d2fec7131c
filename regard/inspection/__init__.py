"""What a trained model does with one text, as a document: attention, alternatives, the search, and what heads do."""
