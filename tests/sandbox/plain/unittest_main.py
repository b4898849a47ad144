"""Run a module's unittest classes and write each method's outcome to a file; a script for plain
Python, standard library only.

    python -c "$(cat unittest_main.py)" MODULE_FILE OUTCOMES_FILE

Exit status 0 where the suite was successful, else 1.
"""

import builtins
import json
import sys
import types
import unittest

MODULE = "__test__"


class Outcomes(unittest.TestResult):
    """Outcome of each method: `passed`, `failed` or `skipped`. A later failure replaces a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, str] = {}

    def note(self, test: unittest.TestCase, word: str) -> None:
        """Note a method's outcome; what stands for a class or the module has none."""
        if isinstance(test, unittest.TestCase):
            name = f"{type(test).__name__}.{test._testMethodName}"
            self.words[name] = word if self.words.get(name) != "failed" else "failed"

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.note(test, "passed")

    def addExpectedFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addExpectedFailure(test, err)  # pyright: ignore[reportArgumentType]  (as unittest gives it)
        self.note(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addError(self, test: unittest.TestCase, err: object) -> None:
        super().addError(test, err)  # pyright: ignore[reportArgumentType]  (as unittest gives it)
        self.note(test, "failed")

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addFailure(test, err)  # pyright: ignore[reportArgumentType]  (as unittest gives it)
        self.note(test, "failed")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:
        super().addSubTest(test, subtest, err)  # pyright: ignore[reportArgumentType]  (as unittest gives it)
        if err is not None:
            self.note(test, "failed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.note(test, "failed")


def main(path: str, outcomes: str) -> int:
    """Run the suite; return the exit status."""
    with open(path, encoding="utf-8", errors="surrogatepass") as file:
        text = file.read()
    module = types.ModuleType(MODULE)
    module.__dict__.update(__builtins__=builtins, __file__=path)
    sys.modules[MODULE] = module
    sys.argv = [path]
    exec(compile(text, path, "exec"), module.__dict__)
    result = Outcomes()
    unittest.TestLoader().loadTestsFromModule(module).run(result)
    with open(outcomes, "w", encoding="utf-8") as file:
        json.dump(result.words, file)
    for _, text in (*result.failures, *result.errors):
        print(text, file=sys.stderr)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
