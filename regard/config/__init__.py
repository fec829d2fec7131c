"""Reading TOML in layers, explaining what does not fit, and the settings of training and search."""
