"""Songs and poems of this project in Chinese and English: `--corpus songs-zh` (`training.config.shipped_corpora`)."""
