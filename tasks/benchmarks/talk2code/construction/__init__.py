"""Build `talk2code-dialogues`: its input tasks, the model's drafts, and the rules for them."""
