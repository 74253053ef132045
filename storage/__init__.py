"""Where bytes come from and how they get onto a volume: URIs, sources, destination, manifest."""
