"""Config files: TOML in layers, error messages, and the settings of training and search."""
