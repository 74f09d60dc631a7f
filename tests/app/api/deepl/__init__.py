"""DeepL's family."""
