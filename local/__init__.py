"""Executes a Plan on this machine: order, processes, ports, volumes, logs, state directory."""
