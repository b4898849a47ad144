"""Names of assertions, and their opposites."""

OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertEqual": "assertNotEqual",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertAlmostEqual": "assertNotAlmostEqual",
    "assertRegex": "assertNotRegex",
    "assert_called": "assert_not_called",
    "assertGreater": "assertLessEqual",
    "assertLess": "assertGreaterEqual",
}
OPPOSITES |= {right: left for left, right in OPPOSITES.items()}
OPPOSITES["assert_called_once"] = "assert_not_called"
_OF_ONE_TYPE = ("List", "Dict", "Tuple", "Set", "MultiLine")
OPPOSITES |= {f"assert{kind}Equal": "assertNotEqual" for kind in _OF_ONE_TYPE}
OF_ONE = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")
"""Assertions with one operand and an optional message. Other assertions of unittest have two
operands.
"""
RAISING = ("assertRaises", "assertRaisesRegex", "raises", "assertWarns")
UNRELATED = ("StopAsyncIteration", "BlockingIOError", "ChildProcessError")
"""Exceptions that code under test does not raise."""
STRICT = (
    "assertIn",
    "assertNotIn",
    "assertIs",
    "assertIsNot",
    "assertTrue",
    "assertFalse",
    "assertIsNone",
    "assertIsNotNone",
)
STRICT += ("assertIsInstance", "assertNotIsInstance", "assertRegex", "assertNotRegex")
STRICT += ("assert_called", "assert_not_called", "assert_called_once")
"""Assertions whose opposite is their logical negation. The others use two operators, such as `==`
and `!=`. An honest class may define both so that they return an expression, which is true."""
