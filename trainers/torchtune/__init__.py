"""LoRA and full fine-tuning on torchtune's components, behind a recipe of our own (`recipe.py`; begin there).

command_line -> config (defaults < config file < LORA_CONFIG < key=value)
model_directory -> decoder (torchtune's blocks) <- weights        tokenizer + rows + instruct -> dataset
recipe: the loop -> metrics, progress -> output
"""
