"""Makes the suite's assertions show their parts, though its module is no test file by name."""

import pytest

pytest.register_assert_rewrite("conformance.rail")
