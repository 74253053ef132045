"""The ClusterTrainingRuntimes that we ship, one YAML file each."""
