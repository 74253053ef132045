"""The words that the containers, the controller and the local executor share.

Environment names, labels, paths, ports, exit codes, errors, the termination message and the progress message.
Standard library only: everything may import it, it imports nothing of ours.
"""
