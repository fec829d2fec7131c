"""Speech recognition: generate the text of a recording."""
