"""What turns a TrainJob and a runtime into Kubernetes objects: the API (`api`), the pure plan (`plan`, `plugins`)."""
