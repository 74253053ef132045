"""Typed models of TrainJob, TrainingRuntime and ClusterTrainingRuntime, and how they are read from YAML."""
