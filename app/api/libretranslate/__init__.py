"""LibreTranslate's family: /translate, /detect, /languages, /translate_file."""
