"""The `everyday` corpus: sentences of daily life in English, German, Spanish and Chinese, line by line. README.md says
how it was written. `--train everyday:de-en` reads it (`training.config.shipped_corpora`)."""
