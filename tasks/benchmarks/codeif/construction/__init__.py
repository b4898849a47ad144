"""`parley build codeif-tasks`: instructions with verified tests, made by a model."""
