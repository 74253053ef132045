"""The semantics of JobSet, Job and pod, as one event loop, and the TrainJob status that follows."""
