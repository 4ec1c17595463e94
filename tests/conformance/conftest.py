"""Makes the suite's assertions show their parts, though its modules are no test files by name."""

import pytest

pytest.register_assert_rewrite("conformance.rail", "conformance.under_test")
