"""The command `trainyard`: one file a verb, and what they share. Heavy imports stay inside the verbs."""
