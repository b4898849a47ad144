"""`parley build codeif-tasks` and `codeif-repository-tasks`: instructions with verified tests, made by a model."""
