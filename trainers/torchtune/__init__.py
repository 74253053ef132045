"""LoRA and full fine-tuning on torchtune components, behind our own recipe."""
