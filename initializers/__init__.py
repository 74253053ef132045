"""What "initialize a dataset" and "initialize a model" mean: config, patterns, defaults, the two verbs."""
