"""The trainers, one folder per library; importing one never imports another."""
