"""The state folder of each job: written by its supervisor, read by everybody."""
