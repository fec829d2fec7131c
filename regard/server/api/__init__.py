"""HTTP interfaces: Regard's own, and those of OpenAI, LibreTranslate and DeepL."""
