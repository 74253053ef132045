"""One file per command: environ and argv -> config -> verb -> report -> exit code."""
