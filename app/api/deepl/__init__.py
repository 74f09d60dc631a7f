"""DeepL's family: texts, documents, glossaries and usage, for DeepL's clients."""
