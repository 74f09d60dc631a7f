"""Text without a model: scripts, languages, sentences, protected spans, glossary terms, HTML. No HTTP, no torch."""
