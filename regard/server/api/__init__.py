"""HTTP interfaces: Regard's own, LibreTranslate's and DeepL's."""
