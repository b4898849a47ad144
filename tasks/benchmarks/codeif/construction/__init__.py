"""Builds `codeif-tasks` and `codeif-repository-tasks`: model-written instructions with tests."""
