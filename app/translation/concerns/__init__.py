"""What a sentence has besides words, and what its translation must keep: a file a concern."""
