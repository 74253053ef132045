"""One container as a process tree: started, isolated, and always ended whole."""
