"""`parley build talk2code-dialogues`: the tasks that it begins with, what the model writes, and the rules that this must keep."""
