"""From tokens to text: detokenization, stop strings, token views and streams."""
